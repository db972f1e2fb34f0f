/**
 * COMMITs of an inline effect that are lost on their way or not heard of, and records that the database is not there for
 * (protocol, sections 5, 6 and 13; cases 6 and 33). Who was not told does not run.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { LedgerError, openLedger } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { COMMITTED, startPostgresProxy } from "../harness/postgres-proxy.ts";
import { waitFor } from "../harness/wait.ts";
import { type Calls, calls, INTENT, LEASED, lost, openHost, unresolved } from "./calls.ts";

const subject = await openTestLedger();
const { events } = openHost(subject);
const { proxy, connectionString } = await startPostgresProxy(subject);
const ledger = await openLedger({ connectionString });
subject.atEnd(() => ledger.close());

const INTENT_COMMIT = contains(/admit_inline[\s\S]*commit\0/);
const RECORD_COMMIT = contains(/record_inline[\s\S]*commit\0/);
const effect = (name: string, { functions }: Calls, options = {}) =>
  ledger.run("order-42").effect(name, functions, options);
const neverRun = (error: unknown) => error instanceof LedgerError && error.code === "never_run";

test("an intent whose COMMIT never arrived is written again, and runs once", async () => {
  const cut = proxy.cutBeforeRequest({ match: INTENT_COMMIT });
  const made = calls();
  const end = effect("lost", made);
  await cut.reached;
  assert.deepEqual(await end, { outcome: "accepted", proof: { receipt: "r1" }, via: "run" });
  assert.deepEqual([made.ran(), await events("lost")], [1, [...INTENT, "accepted via run"]]);
});

test("an intent that stands unheard does not run: its holder says so, and it never runs under this name", async () => {
  const cut = proxy.cutReply({ to: INTENT_COMMIT, after: COMMITTED });
  const made = calls();
  const end = effect("unheard", made);
  end.catch(() => {}); // looked at below
  await cut.reached;
  await assert.rejects(end, neverRun);
  assert.deepEqual(await events("unheard"), [...INTENT, "no_effect via run"]);
  const body = "select body from audit.evidence join audit.effects using (effect_id) where name = 'unheard'";
  assert.deepEqual(await subject.sql(body), [{ body: { code: "admission_unconfirmed" } }]);
  await assert.rejects(effect("unheard", made), neverRun);
  await assert.rejects(openHost(subject).effect("unheard", made), neverRun);
  assert.deepEqual([made.ran(), made.asked()], [0, 0]);
});

test("a host that hears of its intent after its window does not run", async () => {
  const held = proxy.holdReply({ to: INTENT_COMMIT, after: COMMITTED });
  const made = calls();
  const end = effect("late", made, { runTimeoutMs: 50 });
  end.catch(() => {}); // looked at below
  await held.reached;
  await waitFor("its window has passed", () =>
    subject.value("select dispatch_deadline < clock_timestamp() from audit.effects where name = 'late'"),
  );
  held.release();
  await assert.rejects(end, neverRun);
  assert.deepEqual([made.ran(), await events("late")], [0, [...INTENT, "no_effect via run"]]);
});

test("without a window it runs, however late it hears", async () => {
  const held = proxy.holdReply({ to: INTENT_COMMIT, after: COMMITTED });
  const made = calls();
  const end = effect("leased", made, LEASED);
  await held.reached;
  held.release();
  assert.equal((await end).outcome, "accepted");
});

for (const [what, fault] of [
  ["never arrived", () => proxy.cutBeforeRequest({ match: RECORD_COMMIT })],
  ["is not heard of", () => proxy.cutReply({ to: RECORD_COMMIT, after: COMMITTED })],
] as const) {
  test(`a record whose COMMIT ${what} is made again, and stands once`, async () => {
    const cut = fault();
    const made = calls();
    const end = effect(`record ${what}`, made);
    await cut.reached;
    assert.equal((await end).outcome, "accepted");
    assert.deepEqual([made.ran(), await events(`record ${what}`)], [1, [...INTENT, "accepted via run"]]);
  });
}

test("what a run reported while the database was away is said before the next call, which then asks at once", async () => {
  const cut = proxy.cutBeforeRequest({ match: contains("note_inline") });
  const made = calls({ run: lost, reconcile: () => ({ receipt: "r2" }) });
  await assert.rejects(effect("kept", made), unresolved);
  await cut.reached;
  assert.deepEqual(await events("kept"), INTENT);
  assert.equal((await effect("kept", made)).outcome, "accepted");
  assert.deepEqual(await events("kept"), [...INTENT, "unresolved", "accepted via reconcile"]);
});
