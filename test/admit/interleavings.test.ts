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
import { registeredRunning } from "../../src/store/effects.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { makeSigner, type Signer } from "../harness/signer.ts";
import { waitFor } from "../harness/wait.ts";

interface Case {
  readonly name: string;
  /** The statement that takes authority away; `$1` is the case's operation and the name of its task and policy. */
  readonly change: string;
  readonly code: string;
  /** Puts back what concerns the other cases too. */
  readonly undo?: string;
  /** Its operation is protected, under a policy that wants one approval, which is there. */
  readonly guarded?: true;
}

const CASES: readonly Case[] = [
  { name: "task_revoke", change: "select effects.revoke_task($1, 'gone')", code: "task_revoked" },
  { name: "root_revoke", change: "select effects.revoke_task('over ' || $1, 'gone')", code: "task_revoked" },
  { name: "task_end", change: "select effects.end_task($1)", code: "task_ended" },
  { name: "withdraw", change: "select effects.withdraw_operation($1, 1, 'bad')", code: "operation_withdrawn" },
  { name: "protect", change: "select effects.protect_operation($1, 'it matters')", code: "operation_not_allowed" },
  {
    name: "strict",
    change: "select effects.set_ledger(true, $1)",
    code: "operation_not_allowed",
    undo: "select effects.set_ledger(false, $1)",
  },
  { name: "policy_revoke", guarded: true, change: "select effects.revoke_policy($1, 'bad')", code: "policy_revoked" },
  {
    name: "approver_revoke",
    guarded: true,
    change: "select effects.revoke_approver('approver of ' || $1, 'her key leaked')",
    code: "approval_required",
  },
  {
    name: "approval_revoke",
    guarded: true,
    change: `select effects.revoke_approval(a.approval_id, 'a mistake')
               from audit.approvals a join audit.effects e using (effect_id) where e.operation = $1`,
    code: "approval_required",
  },
  {
    name: "refuse",
    guarded: true,
    change: "select effects.refuse(effect_id, 'not this one') from audit.effects where operation = $1",
    code: "approval_refused",
  },
  {
    name: "cancel",
    change: "select effects.cancel(effect_id) from audit.effects where operation = $1",
    code: "cancelled",
  },
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
/** An effect for each case and order, prepared and waiting for no worker, by the name of its operation. */
const effects = new Map<string, string>();
const names = CASES.flatMap(({ name, guarded = false }) =>
  [1, 2].map((order) => ({ name: `${name}_${order}`, guarded })),
);

before(async () => {
  const operations = new Map(names.map(({ name }) => [name, countedOperation(name).operation]));
  const worker = await subject.work({ operations: [...operations.values()] });
  await subject.sql("select effects.pause('all', null, 'none is admitted while they are made')");
  for (const { name, guarded } of names) {
    const operation = operations.get(name);
    assert.ok(operation);
    await subject.ledger.openTask(`over ${name}`);
    await subject.ledger.openTask(name, { parent: `over ${name}`, budgets: { usd_cents: 10n } });
    if (guarded) await guard(name);
    effects.set(name, await subject.ledger.enqueue(operation, { to: name, cents: 5 }, { task: name }));
  }
  await waitFor("all are prepared and paused", async () => {
    const waiting = await subject.value<string>("select count(*) from audit.effects where waiting_for = 'paused'");
    return waiting === String(names.length);
  });
  for (const { name, guarded } of names) if (guarded) await approve(name);
  await worker.stop();
  await subject.sql("select effects.resume('all', null, 'they are made')");
});

const signers = new Map<string, { readonly key: string; readonly signer: Signer }>();

async function guard(name: string): Promise<void> {
  const approver = `approver of ${name}`;
  const made = makeSigner();
  const key = await subject.value<string>("select effects.add_approver($1, $2, 'joined')", [approver, made.publicKey]);
  signers.set(name, { key, signer: made });
  await subject.sql("select effects.protect_operation($1, 'it matters')", [name]);
  await subject.sql("select effects.allow_operation($1, 1, 'reviewed')", [name]);
  await subject.sql(
    `select effects.add_policy($1, $1, 1, 'what may be', task => $1, approvals_needed => 1, approvers => array[$2],
       costs => '[{"unit": "usd_cents", "limit": "5"}]')`,
    [name, approver],
  );
}

async function approve(name: string): Promise<void> {
  const { key, signer } = signers.get(name) ?? assert.fail(name);
  const statement = await subject.value<Buffer>("select effects.approval_statement($1)", [effects.get(name)]);
  await subject.sql("select effects.submit_approval($1, $2, $3)", [statement, key, signer.sign(statement)]);
}

for (const { name, change, code, undo } of CASES) {
  const first = `${name}_1`;
  test(`${name}: a change that returned first denies an admission whose snapshot is older`, async () => {
    const admission = await subject.connect();
    await admission.query("begin isolation level serializable");
    await admission.query("select"); // its snapshot is taken here
    await subject.sql(change, [first]);
    await assert.rejects(lock(admission, first), { code: "40001" });
    await admission.query("rollback");

    await admission.query("begin isolation level serializable");
    const { facts } = await lock(admission, first);
    const [verdict] = decideAdmissions(facts);
    await admission.query("rollback");
    assert.ok(verdict);
    if (verdict.verdict === "already") {
      const standing = await subject.ledger.observe(effects.get(first) ?? "");
      assert.ok(standing?.state === "declined" && standing.code === code, JSON.stringify(standing));
    } else {
      assert.ok("code" in verdict, JSON.stringify(verdict));
      assert.equal(verdict.code, code);
    }
    if (undo) await subject.sql(undo, [first]);
  });

  const second = `${name}_2`;
  test(`${name}: a change that comes second waits for the admission`, async () => {
    const admission = await subject.connect();
    await admission.query("begin isolation level serializable");
    const { facts } = await lock(admission, second);
    assert.equal(decideAdmissions(facts)[0]?.verdict, "admitted");
    const changing = await subject.connect();
    const { pid } = (await changing.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0] ?? assert.fail();
    const changed = changing.query(change, [second]);
    await waitFor("the change waits for a lock", async () => {
      const wait = await subject.value<string>("select wait_event_type from pg_stat_activity where pid = $1", [pid]);
      return wait === "Lock";
    });
    await admission.query("commit");
    await changed;
    if (undo) await subject.sql(undo, [second]);
  });
}

/** As the worker that bound it would. */
async function lock(client: pg.Client, name: string) {
  const effectId = effects.get(name) ?? assert.fail(name);
  const running = await registeredRunning(client, effectId);
  assert.ok(running);
  return lockAdmission(client, new Map([[effectId, running]]));
}
