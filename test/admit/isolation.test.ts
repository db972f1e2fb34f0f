/**
 * Authority taken away inside a caller's own transaction, at every isolation level, against an admission at its own level and
 * forced down to READ COMMITTED (protocol, sections 5 and 14; cases 12 and 31). A change that has returned is ahead of every
 * later admission; one that fails says so, and works when it is tried again.
 */
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { before, test } from "node:test";
import type pg from "pg";
import { decideAdmissions, type Verdict } from "../../src/core/admission.ts";
import { lockAdmission, recordAdmitted } from "../../src/store/admission.ts";
import { driverCode } from "../../src/store/connection.ts";
import { registeredRunning } from "../../src/store/effects.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

/** What takes authority away; `$1` is the name of an effect's operation and task. What the admission finds then. */
const CHANGES = {
  task: ["select effects.revoke_task($1, 'gone')", "task_revoked"],
  withdraw: ["select effects.withdraw_operation($1, 1, 'bad')", "operation_withdrawn"],
  pause: ["select effects.pause('operation', $1, 'INC-91')", "paused"],
  budget: ["select effects.set_budget($1, 'usd_cents', '4', 'less')", "budget_exceeded"],
} as const;
const LEVELS = ["read committed", "repeatable read", "serializable"] as const;
const ORDERS = ["before", "between", "after"] as const;
type Level = (typeof LEVELS)[number];

interface Case {
  readonly name: string;
  readonly change: string;
  readonly code: string;
  readonly level: Level;
  readonly admission: Level;
}

const nameOf = (...parts: readonly string[]) => parts.join("_").replaceAll(" ", "_");
const casesOf = (order: (typeof ORDERS)[number]): readonly Case[] =>
  Object.entries(CHANGES).flatMap(([what, [change, code]]) =>
    LEVELS.flatMap((level) =>
      (["read committed", "serializable"] as const).map((admission) => ({
        name: nameOf(what, level, admission, order),
        change,
        code,
        level,
        admission,
      })),
    ),
  );

const subject = await openTestLedger();
const changing = await subject.connect();
const admitting = await subject.connect();
/** By name: two of each operation and task. */
const effects = new Map<string, readonly string[]>();

before(async () => {
  const names = ORDERS.flatMap((order) => casesOf(order).map(({ name }) => name));
  const operations = new Map(names.map((name) => [name, countedOperation(name).operation]));
  const worker = await subject.work({ operations: [...operations.values()] });
  await subject.sql("select effects.pause('all', null, 'none is admitted while they are made')");
  for (const [name, operation] of operations) {
    await subject.ledger.openTask(name, { budgets: { usd_cents: 10n } });
    const ask = () => subject.ledger.enqueue(operation, { to: name, cents: 5 }, { task: name });
    effects.set(name, [await ask(), await ask()]);
  }
  await waitFor("all are prepared", async () => {
    const waiting = await subject.value<string>("select count(*) from audit.effects where waiting_for = 'paused'");
    return waiting === String(2 * names.length);
  });
  await worker.stop();
  await subject.sql("select effects.resume('all', null, 'they are made')");
});

/** Begins a transaction whose snapshot is taken, where its level has one for all of it. */
async function begin(client: pg.Client, level: Level): Promise<void> {
  await client.query(`begin isolation level ${level}`);
  await client.query("select");
}

/** Locks as the worker that bound it would, and decides. */
async function lock(effectId: string) {
  const running = await registeredRunning(admitting, effectId);
  const { facts, bodies } = await lockAdmission(admitting, new Map([[effectId, running ?? assert.fail(effectId)]]));
  return { verdict: decideAdmissions(facts)[0] ?? assert.fail(effectId), digest: bodies.get(effectId)?.digest ?? "" };
}

async function admit(effectId: string): Promise<void> {
  const { verdict, digest } = await lock(effectId);
  assert.ok(verdict.verdict === "admitted", verdict.verdict);
  const { issuedUnder, permitExpiresAtMs, charges, approvals } = verdict;
  const attempt = { attempt: randomUUID(), tokenHash: randomBytes(32).toString("hex"), dispatchTimeoutMs: 30_000 };
  const bound = { effectId, digest, cost: { usd_cents: 5n }, policyId: null, lane: null };
  await recordAdmitted(admitting, "test", [
    { ...bound, ...attempt, issuedUnder, permitExpiresAtMs, charges, approvals },
  ]);
}

/** The verdict of an admission that has begun, tried again after a conflict as every admission is. */
async function decided({ name, admission }: Case): Promise<Verdict> {
  const [, effectId = ""] = effects.get(name) ?? [];
  try {
    return (await lock(effectId)).verdict;
  } catch (error) {
    assert.equal(driverCode(error), "40001");
    assert.notEqual(admission, "read committed");
    await admitting.query("rollback");
    await begin(admitting, admission);
    return (await lock(effectId)).verdict;
  } finally {
    await admitting.query("rollback");
  }
}

function denied(verdict: Verdict, code: string): void {
  assert.ok("code" in verdict && verdict.code === code, JSON.stringify(verdict));
}

async function untilItWaits(client: pg.Client, begun: Promise<unknown>): Promise<void> {
  const pid = (client as unknown as { processID: number }).processID;
  const waits = () =>
    subject.value("select true from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'", [pid]);
  await Promise.race([begun, waitFor("it waits for a lock", waits)]);
}

for (const given of casesOf("before")) {
  const { name, change, code, level, admission } = given;
  test(`${name}: a change that returned first denies an admission with an older snapshot`, async () => {
    await begin(admitting, admission);
    await begin(changing, level);
    await changing.query(change, [name]);
    await changing.query("commit");
    denied(await decided(given), code);
  });
}

for (const given of casesOf("between")) {
  const { name, change, code, level, admission } = given;
  test(`${name}: an admission waits for a change that is under way, and is denied`, async () => {
    await begin(changing, level);
    await changing.query(change, [name]);
    await begin(admitting, admission);
    const verdict = decided(given);
    await untilItWaits(admitting, verdict);
    await changing.query("commit");
    denied(await verdict, code);
  });
}

for (const given of casesOf("after")) {
  const { name, change, code, level, admission } = given;
  test(`${name}: a change with an older snapshot waits for the admission, and is ahead of the next`, async () => {
    const [first = ""] = effects.get(name) ?? [];
    await begin(changing, level);
    await begin(admitting, admission);
    await admit(first);
    const changed = changing.query<Record<string, { readonly in_flight?: readonly string[] }>>(change, [name]);
    changed.catch(() => {}); // looked at below
    await untilItWaits(changing, changed);
    await admitting.query("commit");
    try {
      const [row] = (await changed).rows;
      await changing.query("commit");
      // A level with one snapshot for all of it cannot see what it came too late for.
      const inFlight = Object.values(row ?? {})[0]?.in_flight;
      if (level === "read committed") assert.deepEqual(inFlight, code === "budget_exceeded" ? undefined : [first]);
    } catch (error) {
      // Refused, not overtaken: the caller has its answer, and tries again.
      assert.equal(driverCode(error), "40001");
      assert.notEqual(level, "read committed");
      await changing.query("rollback");
      await subject.sql(change, [name]);
    }
    await begin(admitting, admission);
    denied(await decided(given), code);
  });
}
