/**
 * The wait for a synchronous standby is cancelled during COMMIT: the server answers COMMIT with a warning, and who asked
 * does not act on it (protocol, section 5; case 32). The standby that is named does not exist, so every COMMIT waits.
 */
import assert from "node:assert/strict";
import { afterEach, before, test } from "node:test";
import { accepted } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startOwnServer } from "../harness/own-server.ts";
import { ADMISSION_COMMIT, startPostgresProxy } from "../harness/postgres-proxy.ts";
import { together } from "../harness/together.ts";
import { type Latch, latch, waitFor } from "../harness/wait.ts";

await startOwnServer();
const subject = await openTestLedger();
const { proxy, connectionString } = await startPostgresProxy(subject);
const admin = await subject.connect();
const probe = await subject.connect();

const answers = new Map<string, Latch>();
const counted = countedOperation("send_note", {
  dispatch: async ({ target }) => {
    await answers.get(target.replace(/\/\d$/, ""))?.opened;
    return accepted({ receipt: target }, { cost: { usd_cents: 3n } });
  },
});
const { ask, hits, states, histories, sums, transactions } = together(subject, counted);

before(() => subject.work({ operations: [counted.operation] }, connectionString));
// A test that failed leaves nobody waiting.
afterEach(() => awaitStandby(null));

/** Names the standby that every COMMIT waits for from now on, and returns when one does; null: none waits any more. */
async function awaitStandby(name: string | null): Promise<void> {
  await admin.query(
    name === null
      ? "alter system reset synchronous_standby_names"
      : `alter system set synchronous_standby_names = '${name}'`,
  );
  await admin.query("select pg_reload_conf()");
  const { pid } = (await probe.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0] ?? assert.fail();
  const waits = "select true from pg_stat_activity where pid = $1 and wait_event = 'SyncRep'";
  // A session learns of the new setting between two statements, so the first COMMIT may not know it yet.
  for (;;) {
    let stands = false;
    const wrote = probe.query("select pg_logical_emit_message(true, 'probe', '')").then(() => {
      stands = true;
    });
    if (name === null) return wrote;
    const seen = await waitFor("a COMMIT waits for the standby, or stands", async () =>
      stands ? "stands" : (await subject.value(waits, [pid])) && "waits",
    );
    if (seen === "waits") await admin.query("select pg_cancel_backend($1)", [pid]);
    await wrote;
    if (seen === "waits") return;
  }
}

/** Cancels the wait of the admission or settlement: its COMMIT stands here, and is confirmed with a warning. */
async function cancelWait(): Promise<void> {
  const pid = await waitFor("a COMMIT waits for the standby that holds a gate", () =>
    subject.value<number>(
      `select a.pid from pg_stat_activity a join pg_locks l using (pid)
        where a.wait_event = 'SyncRep' and l.granted and l.relation::regclass::text like '%gate\\__'`,
    ),
  );
  await admin.query("select pg_cancel_backend($1)", [pid]);
}

for (const count of [1, 5]) {
  test(`an admission of ${count} whose wait was cancelled is not dispatched, and is recorded as no_effect`, async () => {
    const task = `admission of ${count}`;
    const held = proxy.holdRequest({ match: ADMISSION_COMMIT });
    const ids = await ask(task, count);
    await held.reached;
    await awaitStandby("nobody");
    held.release();
    await cancelWait();
    await waitFor("the admission is there to be seen", async () => (await states(ids)) === "admitted");
    assert.equal(await transactions("permit", ids), 1);
    assert.equal(await sums(task), `${7 * count} 0 0`);
    await awaitStandby(null);
    for (const id of ids) {
      assert.deepEqual(await subject.ended(id), { state: "no_effect", evidence: { code: "admission_unconfirmed" } });
    }
    await subject.idle();
    assert.deepEqual(await histories(ids), ["admitted no_effect"]);
    assert.equal(await sums(task), "0 0 0");
    assert.equal(hits(task), 0);
  });

  test(`a report of ${count} whose wait was cancelled is recorded again, and stands once`, async () => {
    const task = `outcome of ${count}`;
    const answer = latch();
    answers.set(task, answer);
    const ids = await ask(task, count);
    await waitFor("all have arrived", () => hits(task) === count);
    await awaitStandby("nobody");
    answer.open();
    await cancelWait();
    await waitFor("the outcomes are there to be seen", async () => (await states(ids)) === "accepted");
    assert.equal(await transactions("outcome", ids), 1);
    await cancelWait(); // of the same report, recorded again
    await awaitStandby(null);
    await subject.idle();
    assert.deepEqual(await histories(ids), ["admitted accepted"]);
    assert.equal(await sums(task), `0 ${3 * count} 0`);
    assert.equal(hits(task), count);
  });
}
