/** What people and registered sources say about what is in doubt, and what that settles (protocol, section 7). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { absent, accepted, failed, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const gate = latch();
const { operation } = countedOperation("charge_card", {
  contract: { dispatchTimeoutMs: 20_000, failures: { declined: { effect: "none" } } },
  dispatch: async ({ target }) => {
    if (target === "held") await gate.opened;
    if (target === "booked") return accepted({ receipt: "ch_booked" });
    if (target === "declined") return failed({ code: "declined" });
    return unknown("the line went dead");
  },
  reconcile: async () => absent({ found: 0 }),
});

before(async () => {
  await subject.work({ operations: [operation] });
  await subject.sql("select effects.add_source('bank', 'its statements', authoritative => true)");
  await subject.sql("select effects.add_source('rumour', 'a mailbox that nobody checks')");
});

let count = 0;
/** An effect of at most 100 under a budget of its own; by default nobody knows whether it happened. */
async function doubted(to = `lost ${++count}`) {
  const task = `of ${to} ${++count}`;
  await subject.ledger.openTask(task, { budgets: { usd_cents: 1_000n } });
  const id = await subject.ledger.enqueue(operation, { to, cents: 100 }, { task });
  if (to !== "held") await subject.ended(id);
  return { id, task };
}
async function asked(id: string) {
  const reconciliation = await subject.ledger.reconcile({ effect: id, deadlineMs: 20_000 });
  await waitFor("it has run", () =>
    subject.value("select ended from audit.reconciliations where reconciliation_id = $1", [reconciliation]),
  );
}
const resolve = (id: string, says: string, cost: object | null = null, evidence: unknown = { statement: 17 }) =>
  subject.value<string>("select effects.resolve($1, $2, $3::json, 'the bank says so', cost => $4::json)", [
    id,
    says,
    JSON.stringify(evidence),
    cost && JSON.stringify(cost),
  ]);
const acceptRisk = (id: string, reason = "too old to ask") =>
  subject.value<string>("select effects.accept_risk($1, $2)", [id, reason]);
const submit = (id: string, says: string, evidence: unknown = { line: 4 }, source = "bank") =>
  subject.value<string>("select effects.submit_evidence($1, null, null, $2, $3, $4::json)", [
    source,
    id,
    says,
    JSON.stringify(evidence),
  ]);
async function sums(task: string) {
  const [row] = await subject.sql<{ reserved: string; spent: string; overrun: string }>(
    "select reserved, spent, overrun from audit.budgets where task_path like '%' || $1",
    [task],
  );
  return `${row?.reserved} ${row?.spent} ${row?.overrun}`;
}
const standing = async (id: string) => {
  const row = await subject.ledger.observe(id);
  return row?.state === "uncertain"
    ? `uncertain, ${row.unresolved ? "open" : (row.resolution?.kind ?? "")}`
    : row?.state;
};

for (const [says, cost, settled] of [
  ["accepted", null, "0 100 0"],
  ["accepted", { usd_cents: "40" }, "0 40 0"],
  ["accepted", { usd_cents: "130" }, "0 100 30"],
  ["failed", null, "0 100 0"],
  ["failed", { usd_cents: "0" }, "0 0 0"],
  ["no_effect", null, "0 0 0"],
] as const) {
  test(`resolved as ${says}${cost ? ` at ${cost.usd_cents}` : ""}: uncertain first, then settled like that: ${settled}`, async () => {
    const { id, task } = await doubted();
    assert.equal(await resolve(id, says, cost), "resolved");
    assert.equal(await standing(id), "uncertain, evidence");
    assert.equal(await sums(task), settled);
    const [row] = await subject.sql("select kind, says, source, reason from audit.resolutions where effect_id = $1", [
      id,
    ]);
    assert.deepEqual(row, { kind: "evidence", says, source: "operator", reason: "the bank says so" });
  });
}

test("what was asked about and stayed uncertain is resolved as well", async () => {
  const { id, task } = await doubted();
  await asked(id);
  assert.equal(await standing(id), "uncertain, open");
  assert.equal(await sums(task), "100 0 0");
  assert.equal(await resolve(id, "no_effect"), "resolved");
  assert.equal(await sums(task), "0 0 0");
});

test("the same again is the same; another word is told who was first", async () => {
  const { id } = await doubted();
  assert.equal(await resolve(id, "accepted"), "resolved");
  assert.equal(await resolve(id, "accepted"), "same");
  await assert.rejects(resolve(id, "no_effect"), { code: "PE119" });
  await assert.rejects(acceptRisk(id), { code: "PE119" });
});

test("two operators at once: one wins, the other is told", async () => {
  const { id } = await doubted();
  const [first, second] = [await subject.connect(), await subject.connect()];
  await first.query("begin");
  await first.query("select effects.resolve($1, 'accepted', '{\"a\": 1}', 'first')", [id]);
  const waiting = second.query("select effects.resolve($1, 'no_effect', '{\"b\": 2}', 'second')", [id]);
  waiting.catch(() => {});
  const { pid } = (await first.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0] ?? assert.fail();
  await waitFor("the second one waits", () =>
    subject.value("select exists (select from pg_stat_activity where $1 = any (pg_blocking_pids(pid)))", [pid]),
  );
  await first.query("commit");
  await assert.rejects(waiting, { code: "PE119" });
});

test("an acknowledgement without evidence resolves nothing", async () => {
  const { id } = await doubted();
  for (const nothing of [null, {}, [], "", true])
    await assert.rejects(resolve(id, "no_effect", null, nothing), { code: "22023" });
  await assert.rejects(resolve(id, "happened"), { code: "22023" });
  await assert.rejects(subject.sql("select effects.resolve($1, 'accepted', '{\"a\": 1}', '  ')", [id]), {
    code: "22023",
  });
  assert.equal(await standing(id), "admitted");
});

test("an accepted risk spends the maximum, says nothing about what happened, and evidence may come after it", async () => {
  const { id, task } = await doubted();
  assert.equal(await acceptRisk(id), "resolved");
  assert.equal(await standing(id), "uncertain, risk_accepted");
  assert.equal(await sums(task), "0 100 0");
  assert.equal(await acceptRisk(id), "same");
  await assert.rejects(acceptRisk(id, "another reason"), { code: "PE119" });
  assert.equal(await submit(id, "no_effect"), "after_risk");
  assert.equal(await standing(id), "uncertain, evidence");
  assert.equal(await sums(task), "0 100 0");
  assert.deepEqual(await subject.sql("select * from audit.contradictions where effect_id = $1", [id]), []);
  assert.equal(await submit(id, "accepted"), "contradicts");
});

test("a person's evidence after an accepted risk: the same again is the same, and another word is told who was first", async () => {
  const { id } = await doubted();
  await acceptRisk(id);
  assert.equal(await resolve(id, "accepted"), "after_risk");
  assert.equal(await resolve(id, "accepted"), "same");
  await assert.rejects(resolve(id, "no_effect"), { code: "PE119", message: /, as accepted$/ });
  await assert.rejects(resolve(id, "accepted", null, { statement: 18 }), { code: "PE119" });
  const kept = "select count(*)::int from audit.evidence where effect_id = $1";
  assert.equal(await subject.value(kept, [id]), 1);
});

test("what may still be being dispatched, and what is settled, is not resolved", async () => {
  const { id } = await doubted("held");
  await waitFor("it is out", async () => (await standing(id)) === "admitted");
  await assert.rejects(resolve(id, "accepted"), { code: "PE110" });
  await assert.rejects(acceptRisk(id), { code: "PE110" });
  gate.open();
  const { id: booked } = await doubted("booked");
  await assert.rejects(resolve(booked, "no_effect"), { code: "PE110" });
  await assert.rejects(resolve("00000000-0000-7000-8000-000000000000", "no_effect"), { code: "PE109" });
});

test("an authoritative source resolves what is open; another one's word is kept for people", async () => {
  const { id } = await doubted();
  assert.equal(await submit(id, "accepted", { mail: "heard it" }, "rumour"), "kept");
  assert.equal(await standing(id), "admitted");
  assert.equal(await submit(id, "accepted"), "resolved");
  assert.equal(await submit(id, "accepted"), "same");
  assert.equal(await submit(id, "accepted", { line: 5 }), "agrees");
});

test("evidence against an outcome is a contradiction, and changes neither outcome nor sums", async () => {
  const { id, task } = await doubted("booked");
  assert.equal(await submit(id, "no_effect"), "contradicts");
  assert.equal(await standing(id), "accepted");
  assert.equal(await sums(task), "0 100 0");
  const [row] = await subject.sql(
    "select source, says, recorded, amount_at_stake, unit from audit.contradictions where effect_id = $1",
    [id],
  );
  assert.deepEqual(row, {
    source: "bank",
    says: "no_effect",
    recorded: "accepted",
    amount_at_stake: "100",
    unit: "usd_cents",
  });
});

test("evidence that something happened which was never admitted contradicts", async () => {
  await subject.ledger.openTask("poor", { budgets: { usd_cents: 1n } });
  const id = await subject.ledger.enqueue(operation, { to: "x", cents: 100 }, { task: "poor" });
  assert.equal((await subject.ended(id)).state, "declined");
  assert.equal(await submit(id, "accepted"), "contradicts");
  assert.equal(await submit(id, "no_effect"), "agrees");
});

test("evidence of further cost is overrun, whatever the outcome says, and counts once", async () => {
  const { id, task } = await doubted("declined");
  assert.equal(await sums(task), "0 0 0");
  assert.equal(await submit(id, "cost", { cost: { usd_cents: "25" } }), "charged");
  assert.equal(await submit(id, "cost", { cost: { usd_cents: "25" } }), "same");
  assert.equal(await sums(task), "0 0 25");
  assert.equal(await submit(id, "cost", { cost: { usd_cents: "20" }, note: "less" }), "kept");
  assert.equal(await submit(id, "cost", { cost: { usd_cents: "40" } }, "rumour"), "kept");
  assert.equal(await sums(task), "0 0 25");
  for (const bad of [{ cost: { usd_cents: "-1" } }, { cost: { usd_cents: 1.5 } }, { cost: [] }, { amount: 1 }]) {
    await assert.rejects(submit(id, "cost", bad), { code: "22023" });
  }
});

test("evidence names one effect: by key, by id, by a reference that is one effect's", async () => {
  const { id } = await doubted();
  const key = await subject.value<string>("select key from audit.effects where effect_id = $1", [id]);
  const by = (key: string | null, reference: string | null) =>
    subject.value<string>("select effects.submit_evidence('bank', $1, $2, null, 'accepted', '{\"n\": 1}')", [
      key,
      reference,
    ]);
  await assert.rejects(by(null, null), { code: "22023" });
  await assert.rejects(by(null, "ch_nobody"), { code: "PE109" });
  assert.equal(await by(key, "ch_1"), "resolved");
  assert.equal(await by(null, "ch_1"), "same");
  const { id: other } = await doubted();
  await subject.sql("select effects.submit_evidence('bank', null, 'ch_1', $1, 'accepted', '{\"n\": 2}')", [other]);
  await assert.rejects(by(null, "ch_1"), { code: "PE120" });
});

test("an unknown or revoked source says nothing", async () => {
  const { id } = await doubted();
  await assert.rejects(submit(id, "accepted", {}, "nobody"), { code: "42501" });
  await subject.sql("select effects.add_source('old_bank', 'before the merger', authoritative => true)");
  await subject.sql("select effects.revoke_source('old_bank', 'merged')");
  await assert.rejects(submit(id, "accepted", { line: 1 }, "old_bank"), { code: "42501" });
});
