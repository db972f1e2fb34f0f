/**
 * A worker that goes silent in the middle of its admission: the server ends its session, so that its locks hold up nobody
 * for long; and a worker that gives up waiting for the server takes nothing for sent, or for not sent, that it does not know.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { admit } from "../../src/admit/admit.ts";
import { anything, contains } from "../../src/demo/recipients/fault-rule.ts";
import { type RunningOperation, runningFacts } from "../../src/runtime.ts";
import { openPool } from "../../src/store/connection.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { openRuntime } from "../harness/open-runtime.ts";
import { startPostgresProxy } from "../harness/postgres-proxy.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const { proxy, connectionString } = await startPostgresProxy(subject);
const silent = countedOperation("send_silently");
const lively = countedOperation("send_lively");

before(async () => {
  await subject.work({ operations: [silent.operation] }, connectionString);
  await subject.work({ operations: [lively.operation] });
});

const history = (id: string) =>
  subject.value<string>(
    "select string_agg(event, ' ' order by seq) from audit.events where effect_id = $1 and event <> 'denied'",
    [id],
  );

test("a worker that hears nothing between its locks and its writes loses them, and admits the effect later", async () => {
  const locked = proxy.holdReply({ to: contains("lock_admission"), after: anything });
  const first = await ledger.enqueue(silent.operation, { to: "first" });
  await locked.reached;
  const idle = "select pid from pg_stat_activity where datname = current_database() and state = 'idle in transaction'";
  const pid = await waitFor("its transaction idles", () => subject.value<number>(idle));
  // Of the same root task, so it waits at the same gate.
  const second = await ledger.enqueue(lively.operation, { to: "second" });
  assert.equal((await subject.ended(second)).state, "accepted");
  assert.equal(await subject.value("select count(*) from pg_stat_activity where pid = $1", [pid]), "0");
  assert.equal(await history(first), "requested prepared");
  locked.release();
  assert.equal((await subject.ended(first)).state, "accepted");
  assert.equal(await history(first), "requested prepared admitted accepted");
  assert.deepEqual([silent.hits("first"), lively.hits("second")], [1, 1]);
});

/** An effect that no worker takes, and its admission in this process, which gives up on the server after a moment. */
async function admission(name: string) {
  const { operation } = countedOperation(name);
  const runtime = openRuntime(subject, name, operation);
  const hasty = openPool({
    connectionString: subject.connectionString,
    applicationName: name,
    max: 4,
    pipeline: true,
    queryTimeoutMs: 3_000, // beyond what a loaded machine needs for the statements before
  });
  subject.atEnd(() => hasty.end());
  const worker = await subject.work({ operations: [operation] });
  await ledger.pause({ operation: name, reason: "admitted by the test" });
  await ledger.openTask(name, { budgets: { usd_cents: 100n } });
  const id = await ledger.enqueue(operation, { to: name, cents: 7 }, { task: name });
  await waitFor("it is prepared", async () => (await ledger.observe(id))?.state === "prepared");
  await worker.stop();
  await ledger.resume({ operation: name, reason: "admitted by the test" });
  const [row] = await subject.sql<{ key: string; root: string }>(
    `select r.key, t.lineage[1] as root from effects_ledger.request r join effects_ledger.task t using (task_id)
      where r.effect_id = $1`,
    [id],
  );
  const running = runningFacts(runtime, runtime.operations.get(name) as RunningOperation);
  const candidate = { effectId: id, key: row?.key ?? "", root: row?.root ?? "", running, dispatchTimeoutMs: 30_000 };
  return { id, admitted: () => admit({ ...runtime, pool: hasty }, [candidate]) };
}

/** Holds the statement that writes an admission, its COMMIT right behind it, until this side has given up. */
async function heldUntilGivenUp(name: string, admitted: () => ReturnType<typeof admit>) {
  const holder = await subject.connect();
  await holder.query("begin; lock table effects_ledger.permit in share mode");
  const admission = admitted();
  const waiting = `select pid from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'`;
  const pid = await waitFor("it waits", () => subject.value<number>(waiting, [name]));
  await waitFor("it asks what became of it", () =>
    subject.value("select true from pg_stat_activity where application_name = 'pg-effects fate'"),
  );
  return { holder, admission, pid };
}

test("an admission given up while its COMMIT was on the way is admitted again once it is known not to stand", async () => {
  const { id, admitted } = await admission("given_up");
  const { holder, admission: given, pid } = await heldUntilGivenUp("given_up", admitted);
  await subject.sql("select pg_terminate_backend($1)", [pid]);
  await holder.query("commit");
  const [result] = await given;
  assert.equal(result?.admission, "admitted");
  assert.equal(await history(id), "requested prepared admitted");
});

test("an admission given up that stands after all is not sent, and is recorded as no_effect", async () => {
  const { id, admitted } = await admission("given_up_too_early");
  const { holder, admission: given } = await heldUntilGivenUp("given_up_too_early", admitted);
  await holder.query("commit");
  const [result] = await given;
  assert.deepEqual(result, { admission: "none", verdict: "unconfirmed", code: null });
  assert.deepEqual(await ledger.observe(id), { state: "no_effect", evidence: { code: "admission_unconfirmed" } });
  assert.equal(await history(id), "requested prepared admitted no_effect");
});
