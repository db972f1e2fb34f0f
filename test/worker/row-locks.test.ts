/**
 * One use and caps hold by constraint and row lock, too: with the gates taken away, at SERIALIZABLE and forced down to READ
 * COMMITTED (protocol, section 5; case 12).
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { type Admission, admit } from "../../src/admit/admit.ts";
import { type RunningOperation, runningFacts } from "../../src/runtime.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { openRuntime, type Rewrite } from "../harness/open-runtime.ts";
import { waitFor } from "../harness/wait.ts";

const ROUNDS = 5;
const RIVALS = 4;

const subject = await openTestLedger();
const { ledger } = subject;
const { operation } = countedOperation("send_note");

/** Fails where nothing was taken away: then the test would show nothing. */
const without =
  (pattern: RegExp, instead: string): Rewrite =>
  (text) => {
    const changed = text.replace(pattern, instead);
    assert.ok(changed !== text || !text.startsWith("begin"), text);
    return changed;
  };
const withoutGates = without(/; lock table .* in exclusive mode/, "");
const downgraded = without(/isolation level serializable/, "isolation level read committed");
const readCommitted: Rewrite = (text) => downgraded(withoutGates(text));

const SETTINGS = { "at SERIALIZABLE without gates": withoutGates, "at READ COMMITTED without gates": readCommitted };

/** Prepared effects of 9 cents that no worker is there to admit, so many under each task. */
async function prepared(
  tasks: readonly string[],
  count: number,
  limit: bigint,
): Promise<readonly (readonly string[])[]> {
  await subject.sql("select effects.pause('operation', 'send_note', 'to be admitted by the test')");
  const worker = await subject.work({ operations: [operation] });
  const ids: string[][] = [];
  for (const task of tasks) {
    await ledger.openTask(task, { budgets: { usd_cents: limit } });
    const asked = Array.from({ length: count }, () => ledger.enqueue(operation, { to: task, cents: 9 }, { task }));
    ids.push(await Promise.all(asked));
  }
  for (const id of ids.flat()) {
    await waitFor("it is prepared", async () => {
      const standing = await ledger.observe(id);
      return standing?.state === "prepared" && standing.waitingFor === "paused";
    });
  }
  await worker.stop();
  await subject.sql("select effects.resume('operation', 'send_note', 'to be admitted by the test')");
  return ids;
}

before(() => subject.work({ operations: [operation] }).then((worker) => worker.stop()));

for (const [name, rewrite] of Object.entries(SETTINGS)) {
  const runtimes = Array.from({ length: RIVALS }, (_, rival) =>
    openRuntime(subject, `rival ${rival} ${name}`, operation, rewrite),
  );

  /** Lets every rival admit its effect, all of them waiting for the same row first. */
  async function race(ids: readonly string[], row: string): Promise<readonly Admission[]> {
    const lines = await subject.sql<{ effect_id: string; key: string; root: string }>(
      `select r.effect_id, r.key, t.lineage[1] as root from effects_ledger.request r join effects_ledger.task t using (task_id)
        where r.effect_id = any ($1)`,
      [ids],
    );
    const holder = await subject.connect();
    await holder.query(`begin; select from ${row} for update`);
    const admissions = ids.map(async (effectId, rival) => {
      const runtime = runtimes[rival] as (typeof runtimes)[number];
      const running = runningFacts(runtime, runtime.operations.get("send_note") as RunningOperation);
      const { key = "", root = "" } = lines.find((line) => line.effect_id === effectId) ?? {};
      const [admission] = await admit(runtime, [{ effectId, key, root, running, dispatchTimeoutMs: 30_000 }]);
      return admission as Admission;
    });
    const waiting = `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
      and application_name like 'rival%' and query like '%lock_admission%'`;
    await waitFor("all rivals wait", async () => (await subject.value(waiting)) === String(RIVALS));
    await holder.query("commit");
    return Promise.all(admissions);
  }

  const tasksOf = (what: string) => Array.from({ length: ROUNDS }, (_, round) => `${what} ${round} ${name}`);

  test(`one effect that ${RIVALS} admit at once is admitted once, ${name}`, async () => {
    const tasks = tasksOf("one use");
    for (const [round, ids] of (await prepared(tasks, 1, 100n)).entries()) {
      const id = ids[0] as string;
      const rivals = Array.from({ length: RIVALS }, () => id);
      const all = await race(rivals, `effects_ledger.effect where effect_id = '${id}'`);
      assert.deepEqual(all.map(({ admission }) => admission).sort(), ["admitted", "none", "none", "none"]);
      for (const each of all) if (each.admission === "none") assert.equal(each.verdict, "already");
      assert.equal(await reserved(tasks[round] as string), "9");
    }
  });

  test(`of ${RIVALS} effects of 9 where 25 are left two are admitted, ${name}`, async () => {
    const tasks = tasksOf("cap");
    for (const [round, ids] of (await prepared(tasks, RIVALS, 25n)).entries()) {
      const task = tasks[round] as string;
      const row = "effects_ledger.budget where task_id = (select task_id from effects_ledger.task where name = ";
      const all = await race(ids, `${row}'${task}')`);
      assert.deepEqual(all.map(({ admission }) => admission).sort(), ["admitted", "admitted", "none", "none"]);
      for (const each of all) if (each.admission === "none") assert.equal(each.code, "budget_held");
      assert.equal(await reserved(task), "18");
    }
  });
}

const reserved = (task: string) =>
  subject.value(
    "select b.reserved from effects_ledger.budget b join effects_ledger.task t using (task_id) where t.name = $1",
    [task],
  );
