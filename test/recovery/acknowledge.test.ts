/** A ledger that may have lost a confirmed commit is closed, and its owner opens it as one of three (protocol, section 10). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger, type TestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

async function makeLedger() {
  const subject = await openTestLedger();
  const charge = countedOperation("charge_card", {
    dispatch: ({ target }) => (target.startsWith("lost") ? unknown("dead line") : accepted({ receipt: target })),
    reconcile: async ({ target }) => accepted({ receipt: target }),
  });
  await subject.ledger.openTask("shop", { budgets: { usd_cents: 100n } });
  return { subject, charge };
}

/** As a failover leaves it: everything is there, and the server writes another timeline than the identity says. */
const failOver = (subject: TestLedger) =>
  subject.sql("update effects_ledger.identity set timeline = '00000009', written_by = pg_current_xact_id()");
const show = (subject: TestLedger) => subject.value<Record<string, unknown>>("select effects_ledger.recovery_facts()");
const acknowledge = (subject: TestLedger, commits: string) =>
  subject.value<{ effects: number }>("select effects.acknowledge_recovery($1, 'we failed over')", [commits]);
const waits = (subject: TestLedger, id: string) =>
  waitFor("it waits for the owner", async () => {
    const row = "select denial_code from audit.effects where effect_id = $1";
    return (await subject.value(row, [id])) === "recovery_unacknowledged";
  });

test("on another timeline nothing is admitted, requests are taken, and possible-loss presumes what waited", async () => {
  const { subject, charge } = await makeLedger();
  const worker = await subject.work({ operations: [charge.operation] });
  const before = await subject.ledger.enqueue(charge.operation, { to: "before", cents: 40 }, { task: "shop" });
  await subject.ended(before);
  await failOver(subject);
  const waiting = await subject.ledger.enqueue(charge.operation, { to: "waiting", cents: 70 }, { task: "shop" });
  await waits(subject, waiting);
  assert.equal((await show(subject)).gap, "another_timeline");
  await worker.stop();
  const unbound = await subject.ledger.enqueue(charge.operation, { to: "unbound", cents: 5 }, { task: "shop" });

  await assert.rejects(acknowledge(subject, "lost-nothing"), { code: "PE121" });
  assert.equal((await acknowledge(subject, "possible-loss")).effects, 2);
  for (const id of [waiting, unbound]) {
    const standing = await subject.ledger.observe(id);
    assert.ok(standing?.state === "admitted" && standing.unresolved);
  }
  // 40 are spent of 100, and 70 are reserved: the one rise that may pass a limit.
  assert.equal(await subject.value("select reserved from audit.budgets"), "70");

  await subject.work({ operations: [charge.operation] });
  await subject.ledger.reconcile({ effect: waiting, deadlineMs: 20_000 });
  await waitFor("it is found", async () => (await subject.ledger.observe(waiting))?.state === "accepted");
  assert.equal(charge.hits("waiting"), 0);

  const suspended = await subject.ledger.enqueue(charge.operation, { to: "later", cents: 1 }, { task: "shop" });
  await waits(subject, suspended);
  await subject.sql("select effects.set_budget('shop', 'usd_cents', '1000', 'looked at')");
  assert.equal((await subject.ended(suspended)).state, "accepted");
  assert.equal(await subject.value("select commits from audit.recoveries"), "possible-loss");
});

test("after a close marker nothing is admitted, and lost-nothing lets what waits go on", async () => {
  const { subject, charge } = await makeLedger();
  await subject.work({ operations: [charge.operation] });
  await subject.sql("select effects.close_ledger('a planned switchover')");
  const waiting = await subject.ledger.enqueue(charge.operation, { to: "waiting", cents: 5 }, { task: "shop" });
  await waits(subject, waiting);
  await failOver(subject);
  await acknowledge(subject, "lost-nothing");
  assert.equal((await subject.ended(waiting)).state, "accepted");
  assert.equal(charge.hits("waiting"), 1);
  await assert.rejects(acknowledge(subject, "lost-nothing"), { code: "55000" });
});

test("without a marker, lost-nothing wants every process to have found its last confirmed admission", async () => {
  const { subject, charge } = await makeLedger();
  await subject.work({ operations: [charge.operation] });
  await subject.ended(await subject.ledger.enqueue(charge.operation, { to: "known", cents: 5 }, { task: "shop" }));
  await subject.sql("update effects_ledger.worker set confirmed_on = 'before'");
  await failOver(subject);
  await assert.rejects(acknowledge(subject, "lost-nothing"), { code: "PE121" });
  await waitFor("the worker has looked", async () => (await show(subject)).unconfirmed_workers === 0);
  await acknowledge(subject, "lost-nothing");
});

test("an admission that was confirmed and is gone closes the ledger for all", async () => {
  const { subject, charge } = await makeLedger();
  const worker = await subject.work({ operations: [charge.operation] });
  await subject.ended(await subject.ledger.enqueue(charge.operation, { to: "known", cents: 5 }, { task: "shop" }));
  // What a worker that survived the loss would say at its next beat.
  await subject.sql("select effects_ledger.heartbeat('survivor', '{}', 'r', '{}', gen_random_uuid())");
  assert.equal((await show(subject)).gap, "admission_lost");
  const waiting = await subject.ledger.enqueue(charge.operation, { to: "waiting", cents: 5 }, { task: "shop" });
  await waits(subject, waiting);
  await assert.rejects(acknowledge(subject, "lost-nothing"), { code: "PE121" });
  await worker.stop();
  await acknowledge(subject, "possible-loss");
  assert.equal(charge.hits("waiting"), 0);
});

test("a copy is another ledger: all authority is void, and effects of the former one are for reading", async () => {
  const { subject, charge } = await makeLedger();
  await subject.work({ operations: [charge.operation] });
  const lost = await subject.ledger.enqueue(charge.operation, { to: "lost", cents: 5 }, { task: "shop" });
  await subject.ended(lost);
  const former = await subject.value<string>("select ledger_id from effects_ledger.identity");
  await failOver(subject);
  const waiting = await subject.ledger.enqueue(charge.operation, { to: "waiting", cents: 5 }, { task: "shop" });
  await acknowledge(subject, "copy");
  assert.notEqual(await subject.value("select ledger_id from effects_ledger.identity"), former);
  const standing = await subject.ended(waiting);
  assert.ok(standing.state === "declined" && standing.reason === "revoked", JSON.stringify(standing));
  const reconciliation = await subject.ledger.reconcile({ effect: lost, deadlineMs: 20_000 });
  await waitFor("it has run", () =>
    subject.value("select ended from audit.reconciliations where reconciliation_id = $1", [reconciliation]),
  );
  assert.equal(charge.asked("lost"), 0);
  await assert.rejects(subject.sql("select effects.resolve($1, 'accepted', '{\"a\": 1}', 'r')", [lost]), {
    code: "PE110",
  });
  const fresh = await subject.ledger.enqueue(charge.operation, { to: "fresh" });
  assert.equal((await subject.ended(fresh)).state, "accepted");
});
