/** Every refusal of effects.request_reconciliation, and what its scopes mean (surface, SQL). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const { operation } = countedOperation("send_note", {
  dispatch: ({ target }) => (target === "sent" ? accepted({ receipt: "r" }) : unknown("the line went dead")),
});
const other = countedOperation("send_other", { dispatch: () => unknown("the line went dead") });
const ids: Record<string, string> = {};

before(async () => {
  const worker = await subject.work({ operations: [operation, other.operation] });
  await ledger.openTask("a");
  await ledger.openTask("a/b", { parent: "a" });
  await ledger.openTask("c");
  for (const [to, task] of Object.entries({ first: "a", second: "a/b", third: "c", sent: "a" })) {
    ids[to] = await ledger.enqueue(operation, { to }, { task });
  }
  ids.other = await ledger.enqueue(other.operation, { to: "other" }, { task: "c" });
  for (const id of Object.values(ids)) await subject.ended(id);
  await worker.stop();
});

const SOON = "now() + interval '1 hour'";
const ask = (parameters: string, values: readonly unknown[] = []) =>
  subject.value<string>(`select effects.request_reconciliation(${parameters})`, values);
const rows = () =>
  subject.value(
    `select (select count(*) from effects_ledger.reconciliation) + (select count(*) from effects_ledger.reconciliation_effect)
        + (select count(*) from effects_queue.jobs)`,
  );

const REFUSALS: readonly (readonly [code: string, parameters: string])[] = [
  ["22023", `${SOON}, 'all', allow_fence => true, allow_resubmit => true`],
  ["PE111", `${SOON}, 'all', allow_resubmit => true`],
  ["22023", `${SOON}, 'everything'`],
  ["22023", `${SOON}, null`],
  ["22023", `${SOON}, 'all', task => 'a'`],
  ["22023", `${SOON}, 'effect'`],
  ["22023", `${SOON}, 'task', effect_id => gen_random_uuid()`],
  ["22023", `${SOON}, 'operation', task => 'a'`],
  ["22023", `${SOON}, 'task', task => 'a', operation => 'send_note'`],
  ["22023", "null, 'all'"],
  ["22023", "clock_timestamp(), 'all'"],
  ["22023", "clock_timestamp() + interval '24 hours 1 minute', 'all'"],
  ["22023", "'infinity', 'all'"],
  ["PE101", `${SOON}, 'operation', operation => 'unheard_of'`],
  ["PE103", `${SOON}, 'task', task => 'nowhere'`],
  ["PE109", `${SOON}, effect_id => gen_random_uuid()`],
  ["PE111", `${SOON}, 'task', task => 'a', allow_fence => true`],
  ["PE111", `${SOON}, 'task', task => 'a', allow_fence => true, confirm_count => 1`],
  ["PE111", `${SOON}, 'all', allow_fence => true, confirm_count => 5`],
];
for (const [code, parameters] of REFUSALS) {
  test(`(${parameters}) is refused with ${code}, and asks nobody`, async () => {
    const before = await rows();
    await assert.rejects(ask(parameters), (error: Error & { code: string; hint?: string }) => {
      assert.equal(error.code, code, error.message);
      return Boolean(error.hint);
    });
    assert.equal(await rows(), before);
  });
}

test("an effect that is not in doubt is refused with PE110", async () => {
  await assert.rejects(ask(`${SOON}, effect_id => $1`, [ids.sent]), { code: "PE110", message: /is accepted$/ });
  const waiting = await ledger.enqueue(operation, { to: "waiting" });
  await assert.rejects(ledger.reconcile({ effect: waiting, deadlineMs: 1_000 }), {
    name: "LedgerError",
    code: "PE110",
  });
});

test("the client refuses a scope or a deadline that is none before it asks", async () => {
  await assert.rejects(ledger.reconcile({ deadlineMs: 1_000 }), { code: "scope_invalid" });
  await assert.rejects(ledger.reconcile({ all: true, task: "a", deadlineMs: 1_000 }), { code: "scope_invalid" });
  for (const deadlineMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 86_400_001]) {
    await assert.rejects(ledger.reconcile({ all: true, deadlineMs }), { code: "deadline_invalid" }, String(deadlineMs));
  }
});

/** Who is in scope, by target. */
async function scopeOf(reconciliation: string): Promise<string> {
  const inScope = await subject.sql<{ effect_id: string }>(
    "select effect_id from effects_ledger.reconciliation_effect where reconciliation_id = $1",
    [reconciliation],
  );
  const names = inScope.map(
    ({ effect_id }) => Object.entries(ids).find(([, id]) => id === effect_id)?.[0] ?? effect_id,
  );
  return names.sort().join(" ");
}

test("a scope holds what is in doubt in it when it is asked, a task with everything under it", async () => {
  const deadlineMs = 60_000;
  assert.equal(await scopeOf(await ledger.reconcile({ effect: ids.first as string, deadlineMs })), "first");
  assert.equal(await scopeOf(await ledger.reconcile({ task: "a", deadlineMs })), "first second");
  assert.equal(await scopeOf(await ledger.reconcile({ operation: "send_note", deadlineMs })), "first second third");
  assert.equal(await scopeOf(await ledger.reconcile({ all: true, deadlineMs })), "first other second third");
  const fencing = { task: "a", deadlineMs, allowFence: true, confirmCount: 2 };
  assert.equal(await scopeOf(await ledger.reconcile(fencing)), "first second");
  assert.equal(await scopeOf(await ledger.reconcile({ task: "a/b", deadlineMs, allowFence: true })), "second");
});

test("since and older_than bound a scope by when the doubt began", async () => {
  const since = await subject.value<Date>("select since from audit.unresolved where effect_id = $1", [ids.third]);
  const deadlineMs = 60_000;
  const from = new Date(since.getTime() - 1);
  assert.match(await scopeOf(await ledger.reconcile({ all: true, since: from, deadlineMs })), /third$/);
  assert.equal(
    await scopeOf(await ledger.reconcile({ all: true, since: new Date(Date.now() + 60_000), deadlineMs })),
    "",
  );
  assert.equal(await scopeOf(await ledger.reconcile({ all: true, olderThanMs: 3_600_000, deadlineMs })), "");
  assert.equal(
    await scopeOf(await ledger.reconcile({ all: true, olderThanMs: 0, deadlineMs })),
    "first other second third",
  );
});
