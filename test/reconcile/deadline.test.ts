/** A reconciliation's deadline is fixed, and what it did not reach stays as it was (protocol, section 7). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { INSPECTIONS_AT_ONCE } from "../../src/reconcile/reconcile.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";

/** More than are asked about at once, so that some are not reached. */
const EFFECTS = INSPECTIONS_AT_ONCE + 4;

const subject = await openTestLedger();
const { ledger } = subject;
let blocks = true;
const allBegun = latch();
let begun = 0;
const { operation, asked } = countedOperation("send_note", {
  dispatch: () => unknown("the line went dead"),
  reconcile: async ({ target }, { signal }) => {
    begun += 1;
    if (begun === INSPECTIONS_AT_ONCE) allBegun.open();
    if (blocks) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    return blocks ? Promise.reject(signal.reason) : accepted({ receipt: target });
  },
});

const request = async (reconciliation: string) => {
  const [row] = await subject.sql<Record<string, unknown>>(
    `select ended, in_scope, inspected, recorded, could_not_ask, not_reached from audit.reconciliations
      where reconciliation_id = $1`,
    [reconciliation],
  );
  return row;
};
const targets = Array.from({ length: EFFECTS }, (_, n) => `note ${n}`);
const unresolved = () => subject.value("select count(*) from audit.unresolved");

test("at its deadline it is expired, what it had begun could not ask, and the rest was not reached and not touched", async () => {
  const worker = await subject.work({ operations: [operation] });
  for (const to of targets) await ledger.enqueue(operation, { to });
  await waitFor("all are unresolved", async () => (await unresolved()) === String(EFFECTS));
  const reconciliation = await ledger.reconcile({ operation: "send_note", deadlineMs: 2_500 });
  await allBegun.opened;
  const row = await waitFor("it has ended", async () => {
    const seen = await request(reconciliation);
    const run = "select count(*) from effects_ledger.reconciliation_run where ended = 'expired'";
    return seen?.ended && (await subject.value(run)) === "1" ? seen : null;
  });
  assert.deepEqual(row, {
    ended: "expired",
    in_scope: String(EFFECTS),
    inspected: String(INSPECTIONS_AT_ONCE),
    recorded: "0",
    could_not_ask: String(INSPECTIONS_AT_ONCE),
    not_reached: "4",
  });
  assert.equal(
    targets.reduce((sum, to) => sum + asked(to), 0),
    INSPECTIONS_AT_ONCE,
  );
  assert.equal(await unresolved(), String(EFFECTS));
  await worker.stop();
});

test("its job, when it comes after the deadline or comes again, asks nobody", async () => {
  blocks = false;
  const late = await ledger.reconcile({ operation: "send_note", deadlineMs: 300 });
  await waitFor("its deadline has passed", () =>
    subject.value(
      "select deadline < clock_timestamp() from effects_ledger.reconciliation where reconciliation_id = $1",
      [late],
    ),
  );
  const before = targets.map(asked).join();
  await subject.work({ operations: [operation] });
  await subject.idle();
  assert.deepEqual(await request(late), {
    ended: "expired",
    in_scope: String(EFFECTS),
    inspected: "0",
    recorded: "0",
    could_not_ask: "0",
    not_reached: String(EFFECTS),
  });
  assert.equal(targets.map(asked).join(), before);
  const runs = "select count(*) from effects_ledger.reconciliation_run where reconciliation_id = $1";
  assert.equal(await subject.value(runs, [late]), "0");

  const again = await ledger.reconcile({ operation: "send_note", deadlineMs: 60_000 });
  await waitFor("it has ended", async () => (await request(again))?.ended);
  assert.equal((await request(again))?.recorded, String(EFFECTS));
  const after = targets.map(asked).join();
  for (const id of [late, again]) {
    await subject.sql(
      `select effects_queue.add_job('reconcile:send_note', json_build_object('reconciliation_id', $1::text, 'operation', 'send_note'))`,
      [id],
    );
  }
  await subject.idle();
  assert.equal(targets.map(asked).join(), after);
  assert.equal(await unresolved(), "0");
});

test("a worker that is told to end begins no further inspection, and nothing takes the request up again", async () => {
  blocks = true;
  const worker = await subject.work({ operations: [operation] });
  const more = Array.from({ length: EFFECTS }, (_, n) => `more ${n}`);
  for (const to of more) await ledger.enqueue(operation, { to });
  await waitFor("all are unresolved", async () => (await unresolved()) === String(EFFECTS));
  begun = 0;
  const reconciliation = await ledger.reconcile({ operation: "send_note", deadlineMs: 4_000 });
  await waitFor("as many as may be are asked about", () => begun === INSPECTIONS_AT_ONCE);
  const stopped = worker.stop();
  await waitFor("it has ended", async () => (await request(reconciliation))?.ended);
  await stopped;
  assert.equal((await request(reconciliation))?.ended, "expired");
  assert.equal(
    more.reduce((sum, to) => sum + asked(to), 0),
    INSPECTIONS_AT_ONCE,
  );
  assert.equal(await unresolved(), String(EFFECTS));
});
