/** What happened is not edited, deleted or emptied, not even by a superuser with triggers on (protocol, section 11). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { attempt } from "../harness/attempt.ts";
import { openGallery } from "../harness/gallery.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
await openGallery(subject);
const client = await subject.connect();

/** Every table that is a history, with a column whose change is tried. */
const HISTORIES = {
  "effects_ledger.request": "priority",
  "effects_ledger.event": "detail",
  "effects_ledger.permit": "digest",
  "effects_ledger.reservation": "amount",
  "effects_ledger.outcome": "outcome",
  "effects_ledger.resolution": "says",
  "effects_ledger.reconciliation": "deadline",
  "effects_ledger.reconciliation_effect": "operation",
  "effects_ledger.inspection": "worker",
  "effects_ledger.inspection_report": "report",
  "effects_ledger.denial": "hint",
};

/** Bodies may be purged, and nothing else. */
const BODIES = {
  "effects_payload.input": "given",
  "effects_payload.binding": "digest",
  "effects_payload.evidence": "says",
};

for (const [table, column] of Object.entries({ ...HISTORIES, ...BODIES })) {
  test(`${table} refuses update, delete and truncate`, async () => {
    if (table === "effects_ledger.resolution") await resolveOne();
    const rows = await subject.value<string>(`select count(*) from ${table}`);
    assert.notEqual(rows, "0", "nothing to try it on");
    for (const statement of [
      `update ${table} set ${column} = ${column}`,
      `delete from ${table}`,
      `truncate ${table} cascade`,
      `delete from ${table} where ctid = (select min(ctid) from ${table})`,
    ]) {
      const refusal = await attempt(client, statement);
      assert.equal(refusal?.code, "42501", statement);
    }
    assert.equal(await subject.value(`select count(*) from ${table}`), rows);
  });
}

/** A resolution, so that there is one to edit: as a late report of the dispatch would write it. */
async function resolveOne() {
  await subject.sql(
    `select effects_ledger.record_outcomes(jsonb_build_array(jsonb_build_object('effect_id', e.effect_id, 'via', 'dispatch',
        'token_hash', encode(e.token_hash, 'hex'), 'outcome', 'no_effect', 'standing', 'released', 'evidence',
        jsonb_build_object('bytes', encode('{}', 'hex'),
          'digest', encode(sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || '{}'), 'hex')),
        'settlements', jsonb_build_array(jsonb_build_object('unit', 'usd_cents', 'settled', '0', 'overrun', '0',
          'source', 'none')))), 'test')
       from effects_ledger.effect e where e.state = 'uncertain'`,
  );
}

test("a purge keeps digests and is the one change of a body, once", async () => {
  const purge = {
    "effects_payload.input": "given = null",
    "effects_payload.binding": "bytes = null, salt = null, payload = null",
    "effects_payload.evidence": "bytes = null",
  };
  for (const [table, bodies] of Object.entries(purge)) {
    assert.equal(await attempt(client, `update ${table} set purged_at = now(), ${bodies}`), null, table);
    const twice = `update ${table} set purged_at = now(), ${bodies}; update ${table} set purged_at = now()`;
    assert.equal((await attempt(client, twice))?.code, "42501", table);
    assert.ok(
      await attempt(client, `update ${table} set purged_at = now()`),
      `${table}: purged, with its body in place`,
    );
    assert.ok(await attempt(client, `update ${table} set ${bodies}`), `${table}: emptied without a purge`);
  }
  for (const digest of ["digest", "payload_digest"]) {
    const forged = `update effects_payload.binding set purged_at = now(), bytes = null, salt = null, payload = null,
      ${digest} = sha256('forged')`;
    assert.equal((await attempt(client, forged))?.code, "42501");
  }
});

test("a run of a reconciliation ends once", async () => {
  assert.equal(
    (await attempt(client, "update effects_ledger.reconciliation_run set ended = 'expired'"))?.code,
    "42501",
  );
  assert.equal((await attempt(client, "delete from effects_ledger.reconciliation_run"))?.code, "42501");
  assert.equal((await attempt(client, "truncate effects_ledger.reconciliation_run"))?.code, "42501");
});
