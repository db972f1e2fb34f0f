/** Two requests at once, the commitment before the call, and what may not be asked about yet (protocol, section 7). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { absent, accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;

const lookup = { begun: latch(), answer: latch() };
const dispatch = { begun: latch(), answer: latch() };
let seen: unknown;
let lookingUp = 0;
const { operation, asked } = countedOperation("send_note", {
  dispatch: async ({ target }) => {
    if (target === "running") {
      dispatch.begun.open();
      await dispatch.answer.opened;
      return accepted({ receipt: "r" });
    }
    return unknown("the line went dead");
  },
  reconcile: async ({ id, target }) => {
    if (target !== "shared") return absent(null);
    lookingUp += 1;
    assert.equal(lookingUp, 1, "looked up twice at once");
    seen = await subject.sql(
      `select i.kind, p.inspection_id is null as open from effects_ledger.inspection i
         left join effects_ledger.inspection_report p using (inspection_id) where i.effect_id = $1`,
      [id],
    );
    lookup.begun.open();
    await lookup.answer.opened;
    lookingUp -= 1;
    return unknown("cannot tell");
  },
});

before(async () => {
  for (let worker = 1; worker <= 2; worker++) await subject.work({ operations: [operation] });
});

const request = async (reconciliation: string) => {
  const [row] = await subject.sql<{ ended: string | null; inspected: string; not_reached: string }>(
    "select ended, inspected, not_reached from audit.reconciliations where reconciliation_id = $1",
    [reconciliation],
  );
  return row;
};
const ends = (reconciliation: string) =>
  waitFor("the reconciliation ends", async () => {
    const row = await request(reconciliation);
    return row?.ended && row;
  });

test("an inspection is committed before its call, and while it is open another request does not inspect the effect", async () => {
  const id = await ledger.enqueue(operation, { to: "shared" });
  await subject.ended(id);
  const first = await ledger.reconcile({ effect: id, deadlineMs: 60_000 });
  await lookup.begun.opened;
  assert.deepEqual(seen, [{ kind: "lookup", open: true }]);
  const second = await ledger.reconcile({ effect: id, deadlineMs: 60_000 });
  assert.deepEqual(await ends(second), { ended: "finished", inspected: "0", not_reached: "1" });
  assert.equal((await request(first))?.ended, null);
  lookup.answer.open();
  assert.deepEqual(await ends(first), { ended: "finished", inspected: "1", not_reached: "0" });
  assert.equal((await ledger.observe(id))?.state, "uncertain");
  assert.equal(asked("shared"), 1);
});

test("what may still be being dispatched is not asked about: not by name, and not within a larger scope", async () => {
  const id = await ledger.enqueue(operation, { to: "running" });
  await dispatch.begun.opened;
  await assert.rejects(ledger.reconcile({ effect: id, deadlineMs: 60_000 }), {
    code: "PE110",
    message: /being dispatched/,
  });
  const all = await ledger.reconcile({ all: true, deadlineMs: 60_000 });
  const scope =
    "select count(*) from effects_ledger.reconciliation_effect where reconciliation_id = $1 and effect_id = $2";
  assert.equal(await subject.value(scope, [all, id]), "0");
  dispatch.answer.open();
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(asked("running"), 0);
});

test("an effect that got its outcome after it came into scope is not asked about", async () => {
  const id = await ledger.enqueue(operation, { to: "settled meanwhile" });
  await subject.ended(id);
  // One session holds the effect, so that the inspection begins after the outcome is there.
  const holder = await subject.connect();
  await holder.query("begin");
  await holder.query("select from effects_ledger.effect where effect_id = $1 for no key update", [id]);
  const reconciliation = await ledger.reconcile({ effect: id, deadlineMs: 60_000 });
  const waiting = `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
    and query like '%begin_inspection%'`;
  await waitFor("the inspection waits", async () => (await subject.value(waiting)) === "1");
  await holder.query(
    `select effects_ledger.record_outcomes(jsonb_build_array(jsonb_build_object('effect_id', e.effect_id, 'via', 'dispatch',
        'token_hash', encode(e.token_hash, 'hex'), 'outcome', 'no_effect', 'standing', 'released', 'settlements', '[]'::jsonb,
        'evidence', jsonb_build_object('bytes', encode('{}', 'hex'),
          'digest', encode(sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || '{}'), 'hex')))), 'test')
       from effects_ledger.effect e where e.effect_id = $1`,
    [id],
  );
  await holder.query("commit");
  assert.deepEqual(await ends(reconciliation), { ended: "finished", inspected: "0", not_reached: "1" });
  assert.equal(asked("settled meanwhile"), 0);
  assert.equal((await ledger.observe(id))?.state, "no_effect");
});

test("an inspection that a worker left open that is known to be gone keeps nobody out", async () => {
  const id = await ledger.enqueue(operation, { to: "left by one that is gone" });
  await subject.ended(id);
  const [gone] = await subject.sql<{ request: string }>(
    `with worker as (
       insert into effects_ledger.worker (worker, release, operations, freed_at) values ('gone', 'r', '{send_note}', now())
     ), request as (
       insert into effects_ledger.reconciliation (requested_by, scope, scope_name, allow_fence, allow_resubmit, include_uncertain, deadline)
         values ('test', 'effect', $1, false, false, false, clock_timestamp() + interval '1 hour') returning reconciliation_id
     ) insert into effects_ledger.reconciliation_effect
         select reconciliation_id, $1::uuid, 'send_note' from request returning reconciliation_id as request`,
    [id],
  );
  await subject.sql("select effects_ledger.begin_inspection($1, $2, 'lookup', 'gone', 'its code', array[1])", [
    gone?.request,
    id,
  ]);
  const later = await ledger.reconcile({ effect: id, deadlineMs: 60_000 });
  assert.deepEqual(await ends(later), { ended: "finished", inspected: "1", not_reached: "0" });
});

test("an inspection that a dead worker left open keeps others out until its request's deadline, and not longer", async () => {
  const id = await ledger.enqueue(operation, { to: "left open" });
  await subject.ended(id);
  // Asked for without a job, and begun as a worker does that dies before it reports.
  const [dead] = await subject.sql<{ request: string }>(
    `with request as (
       insert into effects_ledger.reconciliation (requested_by, scope, scope_name, allow_fence, allow_resubmit, include_uncertain, deadline)
         values ('test', 'effect', $1, false, false, false, clock_timestamp() + interval '4 seconds') returning reconciliation_id
     ) insert into effects_ledger.reconciliation_effect
         select reconciliation_id, $1::uuid, 'send_note' from request returning reconciliation_id as request`,
    [id],
  );
  const begin = "select effects_ledger.begin_inspection($1, $2, 'lookup', 'dead', 'its code', array[1])";
  const begun = await subject.value<{ inspection_id?: string }>(begin, [dead?.request, id]);
  assert.ok(begun.inspection_id);
  const meanwhile = await ledger.reconcile({ effect: id, deadlineMs: 60_000 });
  assert.deepEqual(await ends(meanwhile), { ended: "finished", inspected: "0", not_reached: "1" });
  await waitFor("the deadline has passed", async () => (await request(dead?.request ?? ""))?.ended === "expired");
  const later = await ledger.reconcile({ effect: id, deadlineMs: 60_000 });
  assert.deepEqual(await ends(later), { ended: "finished", inspected: "1", not_reached: "0" });
  assert.equal(asked("left open"), 1);
  const shown =
    "select string_agg(coalesce(report, 'unanswered'), ' ' order by begun_at) from audit.inspections where effect_id = $1";
  assert.equal(await subject.value(shown, [id]), "unanswered absent");
});
