/** Tasks and their budgets, from SQL and from TypeScript (protocol, sections 1 and 5; cases 16 and 17 as far as SQL goes). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const { ledger } = subject;

before(async () => {
  await ledger.openTask("ended");
  await subject.sql("update effects_ledger.task set ended_at = clock_timestamp() where name = 'ended'");
  await ledger.openTask("parent", { deadline: new Date(Date.now() + 3_600_000) });
  await subject.sql("insert into effects_ledger.actor (actor, registered_by) values ('agent', 'test')");
  await ledger.openTask("the agent's", { actor: "agent" });
});

const openTask = (parameters: string, values: readonly unknown[] = []) =>
  subject.value<string>(`select effects.open_task(${parameters})`, values);
const budgetOf = (taskId: string) =>
  subject.sql("select unit, limit_amount, reserved, spent, overrun from effects_ledger.budget where task_id = $1", [
    taskId,
  ]);
const count = () =>
  subject.value("select (select count(*) from effects_ledger.task) + (select count(*) from effects_ledger.budget)");

/** One limit as JSON text. 2^53 as a number is 9007199254740992, which a double still shows as such. */
const LIMITS_REFUSED = [
  ..."-1 -0.5 1.5 1e3 9007199254740992 1e400 true false null [] {}".split(" "),
  ...["", " 1", "+1", "-1", "1e3", "1.0", "0x10", "NaN", "Infinity", "9223372036854775808", "١"].map((digits) =>
    JSON.stringify(digits),
  ),
];
for (const limit of LIMITS_REFUSED) {
  test(`a limit of ${limit} is refused, and opens no task`, async () => {
    const before = await count();
    const budgets = `[{"unit": "calls", "limit": "1"}, {"unit": "usd_cents", "limit": ${limit}}]`;
    await assert.rejects(openTask("'refused', budgets => $1::json", [budgets]), { code: "22023", hint: /integer/ });
    assert.equal(await count(), before);
  });
}

test("budgets given again for a task that is there are checked, keep its limits, and name no unit that it does not bound", async () => {
  const opened = await ledger.openTask("again", { budgets: { usd_cents: 100n, calls: 5n } });
  const budgets = await budgetOf(opened);
  assert.equal(await ledger.openTask("again", { budgets: { usd_cents: 900n } }), opened);
  assert.equal(await ledger.openTask("again"), opened);
  assert.deepEqual(await budgetOf(opened), budgets);
  for (const invalid of ['[{"unit":"usd_cents","limit":-1}]', '[{"unit":"No","limit":1}]', '{"usd_cents":1}']) {
    await assert.rejects(openTask("'again', budgets => $1::json", [invalid]), { code: "22023" }, invalid);
  }
  await assert.rejects(ledger.openTask("again", { budgets: { usd_cents: 100n, mails: 1n } }), {
    code: "PE104",
    message: /the task "again" was opened without a budget of mails/,
  });
  assert.deepEqual(await budgetOf(opened), budgets);
});

test("NaN and Infinity are no JSON, and no limit in TypeScript either", async () => {
  for (const limit of ["NaN", "Infinity"]) {
    await assert.rejects(openTask("'refused', budgets => $1::json", [`[{"unit": "a", "limit": ${limit}}]`]), {
      code: "22P02",
    });
  }
  for (const limit of [Number.NaN, Number.POSITIVE_INFINITY, -1n, 2n ** 63n, "", "1e3", null, true]) {
    const budgets = { usd_cents: limit as bigint };
    await assert.rejects(ledger.openTask("refused", { budgets }), { code: "22023" }, String(limit));
  }
});

test("the sums of a budget take no other number straight in SQL", async () => {
  const task = await openTask(`'straight', budgets => '[{"unit": "usd_cents", "limit": 10}]'`);
  for (const column of ["limit_amount", "reserved", "spent", "overrun"]) {
    for (const amount of ["-1", "'NaN'", "'Infinity'::numeric", "''", "'1e3'", "true", "null", "9223372036854775808"]) {
      await assert.rejects(
        subject.sql(`update effects_ledger.budget set ${column} = ${amount} where task_id = '${task}'`),
        {
          code: /^(23514|22P02|22003|23502|42804|0A000)$/,
        },
      );
    }
  }
  const sums = { unit: "usd_cents", limit_amount: "10", reserved: "0", spent: "0", overrun: "0" };
  assert.deepEqual(await budgetOf(task), [sums]);
});

test("limits are integers from 0 to the largest bigint, as numbers up to 2^53 - 1 or as digits", async () => {
  const given =
    '[{"unit":"a","limit":0},{"unit":"b","limit":9007199254740991},{"unit":"c","limit":"9223372036854775807"}]';
  const task = await openTask("'limits', budgets => $1::json", [given]);
  const limits = (await budgetOf(task)).map((budget) => Object.values(budget).slice(0, 2).join(" "));
  assert.deepEqual(limits.sort(), ["a 0", "b 9007199254740991", "c 9223372036854775807"]);
  const same = { a: 0n, b: 9_007_199_254_740_991n, c: 9_223_372_036_854_775_807n };
  assert.deepEqual(await budgetOf(await ledger.openTask("limits 2", { budgets: same })), await budgetOf(task));
});

const REFUSALS: readonly (readonly [code: string, parameters: string])[] = [
  ["PE103", "'new', parent => 'nowhere'"],
  ["PE103", "'new', parent => null"],
  ["PE108", "'new', parent => 'ended'"],
  ["42501", "'new', actor => 'nobody'"],
  ["42501", `'new', parent => 'the agent''s'`],
  ["22023", "''"],
  ["22023", "null"],
  ["22023", "repeat('n', 201)"],
  ["22023", "'new', deadline => clock_timestamp()"],
  ["22023", "'new', budgets => null"],
  ["22023", `'new', budgets => '{"unit":"a","limit":1}'`],
  ["22023", `'new', budgets => '[{"limit":1}]'`],
  ["22023", `'new', budgets => '[{"unit":"Euro","limit":1}]'`],
  ["22023", `'new', budgets => '[{"unit":"a"}]'`],
  ["22023", `'new', budgets => '["a"]'`],
  ["22023", `'new', budgets => '[{"unit":"a","limit":1},{"unit":"a","limit":2}]'`],
  ["23514", "'new', parent => 'parent', deadline => now() + interval '2 hours'"],
];
for (const [code, parameters] of REFUSALS) {
  test(`open_task(${parameters}) is refused with ${code}, and writes nothing`, async () => {
    const before = await count();
    await assert.rejects(openTask(parameters), (error: Error & { code: string; hint?: string }) => {
      assert.equal(error.code, code, error.message);
      return Boolean(error.hint);
    });
    assert.equal(await count(), before);
  });
}

test("the same name is the same task, left as it stands; with another parent, subject or actor it is refused", async () => {
  const id = await openTask(`'once', subject => 's', budgets => '[{"unit":"a","limit":1}]'`);
  assert.equal(await openTask(`'once', subject => 's', budgets => '[{"unit":"a","limit":1000}]'`), id);
  assert.equal((await budgetOf(id)).map((budget) => Object.values(budget)[1]).join(), "1");
  for (const parameters of ["'once'", "'once', subject => 'other'", "'once', subject => 's', parent => 'parent'"]) {
    await assert.rejects(openTask(parameters), { code: "PE104" }, parameters);
  }
  await assert.rejects(openTask("'once', subject => 's', actor => 'agent'"), { code: "PE104" });
});

test("a child has its parent's deadline unless it gives an earlier one, and a lineage ends at 16", async () => {
  await openTask("'child', parent => 'parent'");
  assert.equal(
    await subject.value(
      `select c.deadline = p.deadline and c.lineage = p.lineage || c.task_id and c.path = 'default > parent > child'
         from effects_ledger.task c, effects_ledger.task p where c.name = 'child' and p.name = 'parent'`,
    ),
    true,
  );
  for (let depth = 2; depth <= 16; depth++)
    await openTask("$1, parent => $2", [`d${depth}`, depth === 2 ? "default" : `d${depth - 1}`]);
  await assert.rejects(openTask("'d17', parent => 'd16'"), {
    code: "23514",
    constraint: "a lineage is at most 16 deep",
  });
});

test("a task made its own ancestor is refused, inserted or moved", async () => {
  const own = `with id as (select gen_random_uuid() as id), actor as (select min(actor) as actor from effects_ledger.actor)
    insert into effects_ledger.task (task_id, name, parent_id, lineage, path, actor, opened_by)
    select id, 'ring', PARENT, LINEAGE, 'ring', actor, 'test' from id, actor`;
  const insert = (parent: string, lineage: string) =>
    subject.sql(own.replace("PARENT", parent).replace("LINEAGE", lineage));
  const child = "(select task_id from effects_ledger.task where name = 'child')";
  await assert.rejects(insert("id", "array[id, id]"), { code: "23514" });
  await assert.rejects(insert("id", "array[id]"), { code: "23514" });
  await assert.rejects(insert("null", "array[id, id]"), { code: "23514" });
  await assert.rejects(
    insert(child, `array[${child}, id]`),
    { code: "23514" },
    "a lineage that leaves out the parent's",
  );
  for (const column of [
    "parent_id = (select task_id from effects_ledger.task where name = 'child')",
    "lineage = lineage || lineage",
  ]) {
    await assert.rejects(subject.sql(`update effects_ledger.task set ${column} where name = 'parent'`), {
      code: /^(42501|23514)$/,
    });
  }
});
