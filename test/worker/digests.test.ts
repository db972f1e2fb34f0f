/** What was bound reads back from SQL to the same digests, by psql's own means (protocol, section 4; case 28). */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";
import { z } from "zod";
import { accepted, defineOperation } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const { vectors } = JSON.parse(await readFile(new URL("../core/canonical-json.json", import.meta.url), "utf8")) as {
  vectors: readonly { text: string; canonical: string; sha256: string }[];
};

const received = new Map<string, unknown>();
const operation = defineOperation({
  name: "send_value",
  version: 1,
  input: z.unknown(),
  proof: z.unknown(),
  prepare: (value) => ({ target: "somewhere", payload: value, precondition: value, preview: "send a value" }),
  dispatch: ({ id, payload }) => {
    received.set(id, payload);
    return accepted(payload);
  },
});

before(() => subject.work({ operations: [operation] }));

/** An auditor's recomputation, from the stored bytes alone. */
const RECOMPUTED = `select
    convert_from(b.payload, 'UTF8') as payload, encode(sha256(b.payload), 'hex') as of_payload,
    b.digest = sha256(convert_to('pg-effects/binding/1' || chr(10), 'UTF8') || b.bytes) as binding_holds,
    b.payload_digest = sha256(convert_to('pg-effects/payload/1' || chr(10), 'UTF8') || b.salt || b.payload) as payload_holds,
    encode(b.payload_digest, 'hex') = convert_from(b.bytes, 'UTF8')::json ->> 'payload_digest' as payload_is_bound,
    b.digest = p.digest as is_permitted, (a.digest = encode(b.digest, 'hex')) as is_audited,
    convert_from(b.bytes, 'UTF8') as bound, convert_from(v.bytes, 'UTF8') as evidence,
    v.digest = sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || v.bytes) as evidence_holds
  from effects_payload.binding b join effects_ledger.permit p using (effect_id) join audit.effects a using (effect_id)
  join effects_ledger.outcome o using (effect_id) join effects_payload.evidence v on v.evidence_id = o.evidence_id
 where b.effect_id = $1`;

for (const { text, canonical, sha256 } of vectors) {
  test(`${canonical} is bound, kept and digested as its canonical bytes`, async () => {
    const ids = [
      await ledger.enqueue(operation, JSON.parse(text)),
      await subject.value<string>("select effects.enqueue('send_value', $1::json)", [text]),
    ];
    for (const id of ids) {
      assert.equal((await subject.ended(id)).state, "accepted");
      const { bound, ...row } = (await subject.sql<{ bound: string }>(RECOMPUTED, [id]))[0] ?? { bound: "" };
      assert.deepEqual(row, {
        payload: canonical,
        of_payload: sha256,
        binding_holds: true,
        payload_holds: true,
        payload_is_bound: true,
        is_permitted: true,
        is_audited: true,
        evidence: canonical,
        evidence_holds: true,
      });
      assert.ok(bound.includes(`"precondition":${canonical},`), bound);
      assert.deepEqual(received.get(id), JSON.parse(canonical));
    }
  });
}

test("a binding is canonical itself: its keys are in order, and parsing it gives its bytes again", async () => {
  const id = await ledger.enqueue(operation, { b: [1, "é"], a: null });
  await subject.ended(id);
  const bytes = await subject.value<string>(
    "select convert_from(bytes, 'UTF8') from effects_payload.binding where effect_id = $1",
    [id],
  );
  assert.equal(JSON.stringify(JSON.parse(bytes)), bytes);
  const keys = Object.keys(JSON.parse(bytes));
  assert.deepEqual(keys, [...keys].sort());
  assert.ok(!keys.includes("digest") && !keys.includes("attempt"));
});
