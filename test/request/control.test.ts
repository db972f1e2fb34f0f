/** What takes authority away or holds it back: what is refused, what it does to what waits, and what it comes too late for. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { before, describe, test } from "node:test";
import pg from "pg";
import { explain } from "../../src/admit/explain.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { register } from "../harness/registration.ts";
import { latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;

/** Dispatches to `held` answer when the latch is opened. */
const release = latch();
const send = countedOperation("send_note", {
  dispatch: async ({ target }) => {
    if (target.startsWith("held")) await release.opened;
    return { report: "accepted", proof: { receipt: target } };
  },
});
const nobodys = countedOperation("nobodys_note");
const withdrawn = countedOperation("withdrawn_note");

before(async () => {
  await register(subject.connectionString, [send.operation, nobodys.operation, withdrawn.operation]);
  await subject.work({ operations: [send.operation, withdrawn.operation] });
});

const until = (what: string, id: string, state: string, waitingFor: string | null = null) =>
  waitFor(what, async () => {
    const standing = await ledger.observe(id);
    return standing?.state === state && (!("waitingFor" in standing) || standing.waitingFor === waitingFor);
  });

/** Waits until it is declined, and returns why. */
async function declined(id: string): Promise<string> {
  const standing = await subject.ended(id);
  assert.ok(standing.state === "declined", `${standing.state} is not declined`);
  return `${standing.reason} ${standing.code}`;
}

/** The code that explain says decides. By the denials' order, as the command line has it. */
async function explained(id: string): Promise<readonly string[]> {
  const client = new pg.Client(subject.connectionString);
  await client.connect();
  try {
    return (await explain(client, id)).lines.flatMap(({ denial }) => denial?.code ?? []);
  } finally {
    await client.end();
  }
}

describe("refused", () => {
  const calls: readonly (readonly [what: string, call: string, code: string, message: RegExp])[] = [
    ["an empty reason of a pause", "pause('all', null, ' ')", "22023", /reason/],
    ["no reason of a resume", "resume('all', null, null)", "22023", /reason/],
    ["an empty reason of a task's revocation", "revoke_task('default', '')", "22023", /reason/],
    ["an empty reason of an actor's revocation", "revoke_actor('postgres', '')", "22023", /reason/],
    ["an empty reason of a withdrawal", "withdraw_operation('send_note', 1, E'\\n')", "22023", /reason/],
    ["a reason beyond 500 characters", "set_budget('default', 'calls', '1', repeat('x', 501))", "22023", /reason/],
    ["until in the past", "pause('all', null, 'x', now() - interval '1 second')", "22023", /past/],
    ["a scope of another word", "pause('tasks', 'default', 'x')", "22023", /scope/],
    ["a scope that names nothing", "pause('target', '', 'x')", "22023", /names nothing/],
    ["a pause of an unknown task", "pause('task', 'none', 'x')", "PE103", /task_unknown/],
    ["a pause of an unknown operation", "pause('operation', 'none', 'x')", "PE101", /operation_unknown/],
    ["a resume of nothing", "resume('operation', 'send_note', 'x')", "22023", /nothing is paused/],
    ["the end of an unknown task", "end_task('none')", "PE103", /task_unknown/],
    ["the end of a root", "end_task('default')", "42501", /is a root/],
    ["the revocation of an unknown task", "revoke_task('none', 'x')", "PE103", /task_unknown/],
    ["the revocation of an unknown actor", "revoke_actor('none', 'x')", "42501", /not registered/],
    ["the withdrawal of an unknown version", "withdraw_operation('send_note', 2, 'x')", "PE101", /operation_unknown/],
    ["the budget of an unknown task", "set_budget('none', 'calls', '1', 'x')", "PE103", /task_unknown/],
    ["a limit that is no number of digits", "set_budget('default', 'calls', '1e3', 'x')", "22023", /limit/],
    ["a unit that is no word", "set_budget('default', 'Calls', '1', 'x')", "22023", /unit/],
  ];
  for (const [what, call, code, message] of calls) {
    test(what, async () => {
      const changes = () => subject.value("select count(*) from audit.authority");
      const earlier = await changes();
      await assert.rejects(subject.sql(`select effects.${call}`), (error: { code: string; hint: string }) => {
        assert.equal(error.code, code);
        assert.match(String(error), message);
        assert.notEqual(error.hint ?? "", "");
        return true;
      });
      assert.equal(await changes(), earlier, "nothing was recorded");
    });
  }

  test("a task that is ended by a stranger, and by its own actor it is not", async () => {
    const stranger = `stranger_${randomBytes(4).toString("hex")}`;
    await subject.sql(`create role ${stranger}`);
    subject.atEnd(() => subject.sql(`drop owned by ${stranger}; drop role ${stranger}`));
    await subject.sql(`grant usage on schema effects to ${stranger}`);
    await subject.sql(`grant execute on function effects.end_task(text) to ${stranger}`);
    await ledger.openTask("the owner's");
    await subject.sql("insert into effects_ledger.actor (actor, registered_by) values ($1, 'test')", [stranger]);
    await ledger.openTask("the stranger's", { actor: stranger });
    const client = await subject.connect();
    await client.query(`set role ${stranger}`);
    await assert.rejects(client.query("select effects.end_task($1)", ["the owner's"]), { code: "42501" });
    await assert.rejects(client.query("select effects.revoke_task($1, 'x')", ["the owner's"]), { code: "42501" });
    await client.query("select effects.end_task($1)", ["the stranger's"]);
    const ended = "select name from audit.tasks where ended_at is not null and name like '%''s' order by name";
    assert.deepEqual(await subject.sql(ended), [{ name: "the stranger's" }]);
  });

  test("a unit that was used under the task before it was budgeted", async () => {
    await ledger.openTask("used");
    const id = await ledger.enqueue(send.operation, { to: "a", cents: 5 }, { task: "used" });
    assert.equal((await subject.ended(id)).state, "accepted");
    await assert.rejects(subject.sql("select effects.set_budget('used', 'usd_cents', '100', 'x')"), {
      code: "22023",
      hint: /before its first admission/,
    });
    await subject.sql("select effects.set_budget('used', 'calls', '100', 'another unit')");
  });

  test("more or fewer than one scope, in TypeScript before any statement", async () => {
    await assert.rejects(ledger.pause({ reason: "x" }), { code: "scope_invalid" });
    await assert.rejects(ledger.resume({ all: true, task: "default", reason: "x" }), { code: "scope_invalid" });
    await assert.rejects(ledger.pause({ task: "none", reason: "x" }), { code: "PE103" });
  });
});

test("a paused effect waits for `paused`, and goes on when it is resumed, at once", async () => {
  await ledger.openTask("paused");
  await ledger.openTask("below", { parent: "paused" });
  const pausing = await ledger.pause({ task: "paused", reason: "INC-91", until: new Date(Date.now() + 3_600_000) });
  assert.deepEqual(pausing, { waiting: 0, inFlight: [], unresolved: 0, firstExpiresAt: null });
  const id = await ledger.enqueue(send.operation, { to: "b" }, { task: "below" });
  await until("it waits", id, "prepared", "paused");
  assert.deepEqual(await explained(id), ["paused"]);
  const resuming = await ledger.resume({ task: "paused", reason: "it is over" });
  assert.equal(resuming.waiting, 1);
  assert.ok(resuming.firstExpiresAt && resuming.firstExpiresAt > new Date());
  assert.equal((await subject.ended(id)).state, "accepted");
  // Its own next look was up to 5 s away.
  const waited = await subject.value<string>(
    `select extract(epoch from e.admitted_at - a.at) from audit.effects e, audit.authority a
      where e.effect_id = $1 and a.change = 'resumed' and a.object = 'task paused'`,
    [id],
  );
  assert.ok(Number(waited) < 2, `${waited} s after the resume`);
});

test("a pause of targets meets those that begin so, and no other", async () => {
  await ledger.pause({ targetPrefix: "api/50%", reason: "x" });
  const [paused, other] = await Promise.all([
    ledger.enqueue(send.operation, { to: "api/50%/charges" }),
    ledger.enqueue(send.operation, { to: "api/500/charges" }),
  ]);
  assert.equal((await subject.ended(other)).state, "accepted");
  await until("it waits", paused, "prepared", "paused");
  await ledger.resume({ targetPrefix: "api/50%", reason: "x" });
  assert.equal((await subject.ended(paused)).state, "accepted");
});

test("a revoked task's waiting effects are declined at once; what is in flight is listed, and finishes", async () => {
  await ledger.openTask("revoked");
  await ledger.openTask("under the revoked", { parent: "revoked" });
  const flying = await ledger.enqueue(send.operation, { to: "held by the task" }, { task: "under the revoked" });
  await waitFor("it is dispatched", () => send.hits("held by the task") === 1);
  await ledger.pause({ task: "revoked", reason: "so that one waits" });
  const waiting = await ledger.enqueue(send.operation, { to: "c" }, { task: "under the revoked" });
  await until("it waits", waiting, "prepared", "paused");
  const met = await subject.value<object>("select effects.revoke_task('revoked', 'an agent has gone mad')");
  assert.partialDeepStrictEqual(met, { waiting: 1, in_flight: [flying], unresolved: 0 });
  assert.deepEqual(await declined(waiting), "revoked task_revoked");
  release.open();
  assert.equal((await subject.ended(flying)).state, "accepted");
  assert.deepEqual([send.hits("c"), send.hits("held by the task")], [0, 1]);
  await assert.rejects(ledger.enqueue(send.operation, { to: "d" }, { task: "revoked" }), { code: "PE108" });
  await ledger.resume({ task: "revoked", reason: "tidy" });
});

test("a task that was ended inside a transaction ends with it, and declines what waits", async () => {
  await ledger.openTask("ended");
  await ledger.pause({ task: "ended", reason: "so that it waits" });
  const id = await ledger.enqueue(send.operation, { to: "e" }, { task: "ended" });
  await until("it waits", id, "prepared", "paused");
  const client = await subject.connect();
  await client.query("begin");
  await ledger.endTask("ended", { client });
  await client.query("rollback");
  assert.equal(await subject.value("select ended_at from audit.tasks where name = 'ended'"), null);
  await ledger.endTask("ended");
  await ledger.endTask("ended"); // the same again changes nothing
  assert.equal(await declined(id), "denied task_ended");
  const ends = "select count(*) from audit.authority where change = 'task ended' and object = 'task ended'";
  assert.equal(await subject.value(ends), "1");
});

test("a withdrawn version's waiting effects are declined", async () => {
  await ledger.pause({ operation: "withdrawn_note", reason: "first" });
  const id = await ledger.enqueue(withdrawn.operation, { to: "f" });
  await until("it waits", id, "prepared", "paused");
  const met = await subject.value<object>("select effects.withdraw_operation('withdrawn_note', 1, 'charges twice')");
  assert.partialDeepStrictEqual(met, { waiting: 1, in_flight: [] });
  assert.equal(await declined(id), "revoked operation_withdrawn");
});

describe("a limit", () => {
  test("that is lowered is taken, and blocks; explain says so before admission does", async () => {
    await ledger.openTask("lowered", { budgets: { usd_cents: 100n } });
    const first = await ledger.enqueue(send.operation, { to: "g", cents: 60 }, { task: "lowered" });
    assert.equal((await subject.ended(first)).state, "accepted");
    await ledger.pause({ task: "lowered", reason: "so that one waits" });
    const id = await ledger.enqueue(send.operation, { to: "h", cents: 10 }, { task: "lowered" });
    await until("it waits", id, "prepared", "paused");
    assert.deepEqual(await explained(id), ["paused"]);
    const set = await subject.value("select effects.set_budget('lowered', 'usd_cents', '50', 'too much')");
    assert.partialDeepStrictEqual(set, { limit: "50", spent: "60", reserved: "0", left: "-10" });
    assert.deepEqual(await explained(id), ["paused", "budget_exceeded"]);
    await ledger.resume({ task: "lowered", reason: "look" });
    assert.equal(await declined(id), "denied budget_exceeded");
  });

  test("that is raised lets what waits for room go on", async () => {
    const holding = latch();
    const slow = countedOperation("slow_note", {
      dispatch: async ({ target }) => {
        if (target === "holds") await holding.opened;
        return { report: "accepted", proof: { receipt: target } };
      },
    });
    await subject.work({ operations: [slow.operation] });
    await ledger.openTask("raised", { budgets: { usd_cents: 100n } });
    const holds = await ledger.enqueue(slow.operation, { to: "holds", cents: 60 }, { task: "raised" });
    await waitFor("it holds its reservation", () => slow.hits("holds") === 1);
    const id = await ledger.enqueue(slow.operation, { to: "waits", cents: 60 }, { task: "raised" });
    await until("it waits", id, "prepared", "budget");
    assert.deepEqual(await explained(id), ["budget_held"]);
    const set = await subject.value("select effects.set_budget('raised', 'usd_cents', '120', 'ana agreed')");
    assert.partialDeepStrictEqual(set, { limit: "120", reserved: "60", left: "60" });
    assert.equal((await subject.ended(id, 5_000)).state, "accepted");
    assert.equal((await ledger.observe(holds))?.state, "admitted");
    holding.open();
    assert.equal((await subject.ended(holds)).state, "accepted");
  });
});

test("explain writes nothing, and refuses what is not prepared and what there is not", async () => {
  const id = await ledger.enqueue(nobodys.operation, { to: "i" });
  await assert.rejects(explained(id), { code: "not_prepared", effectId: id });
  await assert.rejects(explained("00000000-0000-7000-8000-000000000000"), { code: "effect_unknown" });
  await ledger.pause({ operation: "send_note", reason: "so that it waits" });
  const waiting = await ledger.enqueue(send.operation, { to: "j" });
  await until("it waits", waiting, "prepared", "paused");
  const rows = "select row(e, (select count(*) from audit.events)) ::text from audit.effects e where effect_id = $1";
  const earlier = await subject.value(rows, [waiting]);
  assert.deepEqual(await explained(waiting), ["paused"]);
  assert.equal(await subject.value(rows, [waiting]), earlier);
  await ledger.resume({ operation: "send_note", reason: "look" });
  assert.equal((await subject.ended(waiting)).state, "accepted");
});

test("a revoked actor's waiting effects are declined, and every change is in the chain with who and why", async () => {
  const role = `agent_${randomBytes(4).toString("hex")}`;
  await subject.sql(`create role ${role} superuser`);
  subject.atEnd(() => subject.sql(`drop role ${role}`));
  const client = await subject.connect();
  await client.query(`set role ${role}`);
  const id = await ledger.enqueue(nobodys.operation, { to: "k" }, { client });
  const met = await subject.value<object>("select effects.revoke_actor($1, 'its key leaked')", [role]);
  assert.partialDeepStrictEqual(met, { waiting: 1, in_flight: [] });
  await subject.work({ operations: [nobodys.operation] });
  assert.equal(
    await waitFor("it is declined", () =>
      subject.value<string | null>("select declined_reason from audit.effects where effect_id = $1", [id]),
    ),
    "revoked",
  );
  await assert.rejects(ledger.enqueue(nobodys.operation, { to: "l" }, { client }), { code: "42501" });
  const chain = await subject.sql<{ change: string; reason: string | null }>(
    "select change, reason, by_role = session_user as own from audit.authority order by seq",
  );
  const counts = Object.groupBy(chain, ({ change }) => change);
  assert.deepEqual(Object.keys(counts).sort(), [
    "actor revoked",
    "budget set",
    "operation withdrawn",
    "paused",
    "resumed",
    "task ended",
    "task revoked",
  ]);
  assert.equal(counts["budget set"]?.length, 3);
  assert.ok(chain.every(({ change, reason }) => reason !== null || change === "task ended"));
});
