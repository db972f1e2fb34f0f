/** Every ancestor's budget has a say, and a task's own larger limit raises nothing (protocol, section 5; cases 16 and 17). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, failed, notSent, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const sent = new Map<string, ReturnType<typeof latch>>();

const { operation, hits } = countedOperation("send_note", {
  contract: { failures: { refused: { effect: "none" }, broken: { effect: "possible" } } },
  dispatch: async ({ target }) => {
    await sent.get(target)?.opened;
    if (target === "doubt") return unknown("the line went dead");
    if (target === "refused") return failed({ code: "refused" });
    if (target === "broken") return failed({ code: "broken" });
    if (target === "not sent") return notSent({ reason: "no connection" });
    if (target === "cheaper") return accepted({ receipt: "r" }, { cost: { usd_cents: 1n } });
    if (target === "dearer") return accepted({ receipt: "r" }, { cost: { usd_cents: 15n } });
    return accepted({ receipt: "r" });
  },
});

before(async () => {
  await subject.work({ operations: [operation] });
  await ledger.openTask("root", { budgets: { usd_cents: 1_000n } });
  await ledger.openTask("child", { parent: "root" });
  await ledger.openTask("grandchild", { parent: "child", budgets: { usd_cents: 10_000n } });
});

const ask = async (task: string, cents: number, to = "somebody") =>
  subject.ended(await ledger.enqueue(operation, { to, cents }, { task, onDenial: "decline" }));
const sums = async (task: string) => {
  const [row] = await subject.sql<Record<string, string>>(
    "select b.reserved, b.spent, b.overrun from effects_ledger.budget b join effects_ledger.task t using (task_id) where t.name = $1",
    [task],
  );
  return Object.values(row ?? {}).join(" ");
};

test("a child without a limit of its own is bound by its root's, to the last unit", async () => {
  assert.equal((await ask("root", 900)).state, "accepted");
  const denied = await ask("child", 101);
  assert.ok(denied.state === "declined");
  assert.deepEqual([denied.reason, denied.code], ["denied", "budget_exceeded"]);
  assert.deepEqual([await sums("root"), await sums("grandchild")], ["0 900 0", "0 0 0"]);
});

test("a grandchild with a larger limit is granted what its root has left, and not a unit more", async () => {
  assert.equal((await ask("grandchild", 101)).state, "declined");
  assert.equal((await ask("grandchild", 100)).state, "accepted");
  assert.deepEqual([await sums("root"), await sums("grandchild")], ["0 1000 0", "0 100 0"]);
  assert.equal((await ask("grandchild", 1)).state, "declined");
  assert.equal((await ask("grandchild", 0)).state, "accepted");
});

test("of two siblings that ask for 60 each at once where 100 are left exactly one is granted", async () => {
  await ledger.openTask("parent", { budgets: { usd_cents: 100n } });
  const open = latch();
  for (const name of ["brother", "sister"]) {
    await ledger.openTask(name, { parent: "parent" });
    sent.set(name, open);
  }
  const client = await subject.connect();
  await client.query("begin");
  const ids: string[] = [];
  for (const name of ["brother", "sister"]) {
    ids.push(await ledger.enqueue(operation, { to: name, cents: 60 }, { task: name, onDenial: "decline", client }));
  }
  await client.query("commit");
  const firstEnd = await Promise.race(ids.map((id) => subject.ended(id)));
  assert.ok(firstEnd.state === "declined", "the one that is granted is still being sent");
  assert.equal(firstEnd.code, "budget_held");
  assert.equal(await sums("parent"), "60 0 0");
  open.open();
  const states = (await Promise.all(ids.map((id) => subject.ended(id)))).map(({ state }) => state);
  assert.deepEqual(states.sort(), ["accepted", "declined"]);
  assert.equal(await sums("parent"), "0 60 0");
  assert.equal(hits("brother") + hits("sister"), 1);
});

test("what waits for a budget that is held is sent once it is free", async () => {
  await ledger.openTask("narrow", { budgets: { usd_cents: 10n } });
  const open = latch();
  sent.set("not sent", open);
  const first = await ledger.enqueue(operation, { to: "not sent", cents: 10 }, { task: "narrow" });
  const second = await ledger.enqueue(operation, { to: "second", cents: 10 }, { task: "narrow", priority: 1 });
  open.open();
  assert.equal((await subject.ended(first)).state, "no_effect");
  assert.equal((await subject.ended(second)).state, "accepted");
  assert.equal(await sums("narrow"), "0 10 0");
});

test("a limit of 0 blocks every positive cost and no free effect", async () => {
  await ledger.openTask("none", { budgets: { usd_cents: 0n } });
  const denied = await ask("none", 1);
  assert.ok(denied.state === "declined" && denied.code === "budget_exceeded");
  assert.equal((await ask("none", 0)).state, "accepted");
  const free = await ledger.enqueue(operation, { to: "free" }, { task: "none" });
  assert.equal((await subject.ended(free)).state, "accepted");
});

for (const [to, state, after] of [
  ["accepted", "accepted", "0 10 0"],
  ["cheaper", "accepted", "0 1 0"],
  ["dearer", "accepted", "0 10 5"],
  ["refused", "failed", "0 0 0"],
  ["broken", "failed", "0 10 0"],
  ["not sent", "no_effect", "0 0 0"],
  ["doubt", "admitted", "10 0 0"],
] as const) {
  test(`an effect of at most 10 that ends ${state} (${to}) leaves reserved, spent and overrun ${after}`, async () => {
    const task = `ends ${to}`;
    await ledger.openTask(task, { budgets: { usd_cents: 10n } });
    assert.equal((await ask(task, 10, to)).state, state);
    assert.equal(await sums(task), after);
  });
}
