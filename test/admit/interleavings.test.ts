/**
 * Authority taken away while an admission is under way, in both orders, each held by locks and not by time. A change that
 * has returned is ahead of every later admission, also of one whose snapshot is older; one that comes second waits, and
 * says which effects it came too late for.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import type pg from "pg";
import { decideAdmissions } from "../../src/core/admission.ts";
import { lockAdmission } from "../../src/store/admission.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

interface Case {
  readonly name: string;
  /** The statement that takes authority away; `$1` is the case's operation and the name of its task. */
  readonly change: string;
  readonly code: string;
  /** Puts back what concerns the other cases too. */
  readonly undo?: string;
}

const CASES: readonly Case[] = [
  { name: "task_revoke", change: "select effects.revoke_task($1, 'gone')", code: "task_revoked" },
  { name: "root_revoke", change: "select effects.revoke_task('over ' || $1, 'gone')", code: "task_revoked" },
  { name: "task_end", change: "select effects.end_task($1)", code: "task_ended" },
  { name: "withdraw", change: "select effects.withdraw_operation($1, 1, 'bad')", code: "operation_withdrawn" },
  { name: "pause_operation", change: "select effects.pause('operation', $1, 'INC-91')", code: "paused" },
  { name: "pause_task", change: "select effects.pause('task', 'over ' || $1, 'INC-91')", code: "paused" },
  {
    name: "pause_target",
    change: "select effects.pause('target', left($1, -2), 'INC-91')",
    code: "paused",
    undo: "select effects.resume('target', left($1, -2), 'over')",
  },
  {
    name: "pause_all",
    change: "select effects.pause('all', null, 'INC-' || $1)",
    code: "paused",
    undo: "select effects.resume('all', null, 'over ' || $1)",
  },
  { name: "budget_lower", change: "select effects.set_budget($1, 'usd_cents', '4', 'less')", code: "budget_exceeded" },
  {
    name: "budget_added",
    change: "select effects.set_budget('over ' || $1, 'usd_cents', '4', 'new')",
    code: "budget_exceeded",
  },
  {
    name: "actor_revoke",
    change: "with done as (select effects.revoke_actor(session_user::text, $1)) select from done",
    code: "actor_revoked",
    undo: "update effects_ledger.actor set revoked_at = null where $1 <> ''",
  },
];

const subject = await openTestLedger();
/** Effects that are prepared and wait for no worker: two for each case. */
const first = new Map<string, string>();
const second = new Map<string, string>();

before(async () => {
  const operations = CASES.map(({ name }) => countedOperation(name).operation);
  const worker = await subject.work({ operations });
  await subject.sql("select effects.pause('all', null, 'none is admitted while they are made')");
  for (const [place, { name }] of CASES.entries()) {
    const operation = operations[place];
    assert.ok(operation);
    await subject.ledger.openTask(`over ${name}`);
    await subject.ledger.openTask(name, { parent: `over ${name}`, budgets: { usd_cents: 10n } });
    for (const made of [first, second]) {
      made.set(name, await subject.ledger.enqueue(operation, { to: name, cents: 5 }, { task: name }));
    }
  }
  await waitFor("all are prepared and paused", async () => {
    const waiting = await subject.value<string>("select count(*) from audit.effects where waiting_for = 'paused'");
    return waiting === String(2 * CASES.length);
  });
  await worker.stop();
  await subject.sql("select effects.resume('all', null, 'they are made')");
});

for (const { name, change, code, undo } of CASES) {
  test(`${name}: a change that returned first denies an admission whose snapshot is older`, async () => {
    const admission = await subject.connect();
    await admission.query("begin isolation level serializable");
    await admission.query("select"); // its snapshot is taken here
    await subject.sql(change, [name]);
    await assert.rejects(lock(admission, first.get(name)), { code: "40001" });
    await admission.query("rollback");

    await admission.query("begin isolation level serializable");
    const { facts } = await lock(admission, first.get(name));
    const [verdict] = decideAdmissions(facts);
    await admission.query("rollback");
    assert.ok(verdict && "code" in verdict, JSON.stringify(verdict));
    assert.equal(verdict.code, code);
    if (undo) await subject.sql(undo, [name]);
  });
}

/** Those that can be repeated: what is final above was done to the same rows. */
const AGAIN = CASES.filter(({ name }) => /^(pause|budget)/.test(name));

for (const { name, change, undo } of AGAIN) {
  test(`${name}: a change that comes second waits for the admission`, async () => {
    const admission = await subject.connect();
    await admission.query("begin isolation level serializable");
    await lock(admission, second.get(name));
    const changing = await subject.connect();
    const { pid } = (await changing.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0] ?? assert.fail();
    const changed = changing.query(change, [name]);
    await waitFor("the change waits for a lock", async () => {
      const wait = await subject.value<string>("select wait_event_type from pg_stat_activity where pid = $1", [pid]);
      return wait === "Lock";
    });
    await admission.query("commit");
    await changed;
    if (undo) await subject.sql(undo, [name]);
  });
}

/** As the worker that bound it would. */
async function lock(client: pg.Client, effectId: string | undefined) {
  assert.ok(effectId);
  const bound = "select implementation from effects_payload.binding where effect_id = $1";
  return lockAdmission(client, new Map([[effectId, await subject.value<string>(bound, [effectId])]]));
}
