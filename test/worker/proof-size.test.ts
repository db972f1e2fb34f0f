/** A proof that cannot be kept leaves its effect unresolved, not lost and not sent again (protocol, sections 6 and 10; case 27). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { z } from "zod";
import { accepted, defineOperation } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const { ledger } = subject;

/** As canonical JSON a string has two quotation marks, and each of these emoji has four bytes (two units in JavaScript). */
const emoji = (bytes: number) => {
  const body = bytes - 2;
  const text = "💳".repeat(Math.floor(body / 4)) + "x".repeat(body % 4);
  assert.equal(Buffer.byteLength(JSON.stringify(text)), bytes);
  return text;
};

const PROOFS: Readonly<Record<string, unknown>> = {
  "65,536 bytes of emoji": emoji(65_536),
  "65,537 bytes of emoji": emoji(65_537),
  "U+0000": { id: "a\0b" },
  "half a surrogate pair": { id: "\ud83d" },
  "1e400": JSON.parse('{"amount":1e400}'),
  "2^53": { amount: 2 ** 53 },
  nothing: null,
  undefined: undefined,
  "a Date": new Date(0),
  "too deep": JSON.parse(`${"[".repeat(65)}${"]".repeat(65)}`),
};

const hits = new Map<string, number>();
const operation = defineOperation({
  name: "send_note",
  version: 1,
  input: z.strictObject({ proof: z.string() }),
  proof: z.unknown(),
  contract: { proofBytesMax: 65_536 },
  dispatch: ({ payload }) => {
    hits.set(payload.proof, (hits.get(payload.proof) ?? 0) + 1);
    return accepted(PROOFS[payload.proof]);
  },
});
const narrow = defineOperation({
  ...operation.definition,
  name: "send_narrow",
  contract: { proofBytesMax: 10, reference: () => "r" },
  dispatch: ({ payload }) => accepted(payload.proof),
});

before(() => subject.work({ operations: [operation, narrow] }));

test("a proof of exactly the bytes that the contract allows is accepted and kept as it is", async () => {
  const id = await ledger.enqueue(operation, { proof: "65,536 bytes of emoji" });
  const standing = await subject.ended(id);
  assert.equal(standing.state, "accepted");
  assert.ok(standing.state === "accepted" && standing.proof === PROOFS["65,536 bytes of emoji"]);
  const stored = await subject.value("select octet_length(bytes) from effects_payload.evidence where effect_id = $1", [
    id,
  ]);
  assert.equal(stored, 65_536);
});

for (const name of Object.keys(PROOFS).slice(1)) {
  test(`a proof of ${name} is unusable: unresolved, and nothing is sent again`, async () => {
    const id = await ledger.enqueue(operation, { proof: name });
    const standing = await subject.ended(id);
    assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
    await subject.idle();
    const reason = await subject.value<string>("select reason from audit.unresolved where effect_id = $1", [id]);
    assert.match(reason, /^proof_unusable: /);
    assert.equal(hits.get(name), 1);
    const ended = "select dispatch_ended_at is not null from effects_ledger.effect where effect_id = $1";
    assert.equal(await subject.value(ended, [id]), true);
  });
}

test("the bound is the contract's own, in bytes and not in characters", async () => {
  const state = async (proof: string) => (await subject.ended(await ledger.enqueue(narrow, { proof }))).state;
  assert.equal(await state("💳💳"), "accepted");
  assert.equal(await state("💳💳x"), "admitted");
  assert.equal(await state("12345678"), "accepted");
  assert.equal(await state("123456789"), "admitted");
});
