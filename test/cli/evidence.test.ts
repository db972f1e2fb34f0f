/** `source` and `evidence submit`: whose word settles what is open, whose is kept for people, and what contradicts. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { refusal } from "./refusal.ts";
import { cli, cliJson } from "./run.ts";

const book = await openTestLedger();
const database = book.connectionString;
const run = (...args: readonly string[]) => cli(args, { database });
const { operation } = countedOperation("charge_card", {
  dispatch: ({ target }) =>
    target.startsWith("booked") ? accepted({ receipt: target }) : unknown("the line went dead"),
});

before(async () => {
  await book.work({ operations: [operation] });
  await book.ledger.openTask("shop", { budgets: { usd_cents: 1_000_000n } });
});

async function enqueued(name: string): Promise<string> {
  const id = await book.ledger.enqueue(operation, { to: name, cents: 100 }, { task: "shop", name });
  await book.ended(id);
  return id;
}
const submit = (source: string, name: string, says: string, evidence: string, ...more: readonly string[]) =>
  run("evidence", "submit", "--source", source, "--effect", name, "--says", says, "--evidence", evidence, ...more);
const reason = ["--reason", "test"];

test("a source is added, listed and revoked, with who and why; nothing more is taken from it then", async () => {
  const dry = await run("source", "add", "bank", "--authoritative", ...reason, "--dry-run");
  assert.match(dry.stdout, /^source bank would be registered; nothing is changed\n$/);
  assert.equal(await book.value("select count(*)::int from audit.sources"), 0);
  const [bank, rumour] = [
    await run("source", "add", "bank", "--authoritative", ...reason),
    await run("source", "add", "rumour", "--submitted-by", "postgres", ...reason),
  ];
  assert.match(bank.stdout, /^source bank is registered: its word settles what is open; anybody who may/);
  assert.match(rumour.stdout, /^source rumour is registered: its word is kept for people; postgres submits for it\n$/);
  await run("source", "add", "old_bank", "--authoritative", ...reason);
  assert.equal((await run("source", "revoke", "old_bank", ...reason)).stdout, "revoked source old_bank\n");
  const listed = await run("source", "list");
  assert.match(listed.stdout, /\nbank +settles what is open +anybody who may +\S+ by \w+ +live\n/);
  assert.match(listed.stdout, /\nold_bank .* revoked \d\d:\d\d:\d\d\n$/);
  const history = await book.sql(
    "select change, object, reason from audit.authority where object = 'source old_bank' order by seq",
  );
  assert.deepEqual(history, [
    { change: "source added", object: "source old_bank", reason: "test" },
    { change: "source revoked", object: "source old_bank", reason: "test" },
  ]);
  await enqueued("order/0");
  const [revoked, nobody, another, wrong] = await Promise.all([
    refusal(
      [
        "evidence",
        "submit",
        "--source",
        "old_bank",
        "--effect",
        "order/0",
        "--says",
        "accepted",
        "--evidence",
        '{"n":1}',
      ],
      database,
    ),
    refusal(["source", "revoke", "nobody", ...reason], database),
    refusal(["source", "add", "bank", ...reason], database),
    refusal(["source", "add", "Bank", ...reason], database),
  ]);
  assert.deepEqual([revoked.exit, revoked.code], [4, "42501"]);
  for (const refused of [nobody, another, wrong]) assert.deepEqual([refused.exit, refused.code], [2, "22023"]);
});

test("an authoritative word resolves what is open; another one's is kept, and exits 3 while it is unresolved", async () => {
  await enqueued("order/1");
  const kept = await submit("rumour", "order/1", "accepted", '{"heard":true}');
  assert.deepEqual(
    [kept.exit, kept.stdout],
    [3, "order/1  rumour says accepted: kept for people; it settles nothing\n"],
  );
  const dry = await submit("bank", "order/1", "accepted", '{"line":4}', "--dry-run");
  assert.deepEqual([dry.exit, dry.stderr], [0, "a dry run: nothing is changed\n"]);
  const resolved = await submit("bank", "order/1", "accepted", '{"line":4}', "--reference", "ch_1");
  assert.deepEqual(
    [resolved.exit, resolved.stdout],
    [0, "order/1  bank says accepted: it was open, and is resolved so\n"],
  );
  const same = await submit("bank", "order/1", "accepted", '{"line":4}');
  assert.match(same.stdout, /it was submitted before\n$/);
  const by = [
    "evidence",
    "submit",
    "--source",
    "bank",
    "--reference",
    "ch_1",
    "--says",
    "accepted",
    "--evidence",
    '{"line":5}',
  ];
  const { exit, document } = await cliJson<{ answer: string }>(by, { database });
  assert.deepEqual([exit, document.answer], [0, "agrees"]);
});

test("what contradicts is kept, changes nothing, and `show` and `audit.contradictions` tell it", async () => {
  const id = await enqueued("booked/1");
  const key = await book.value<string>("select key from audit.effects where effect_id = $1", [id]);
  const by = ["evidence", "submit", "--source", "bank", "--key", key.toUpperCase(), "--says", "no_effect"];
  const { exit, stdout } = await run(...by, "--evidence", '{"statement":"without it"}');
  assert.equal(exit, 0);
  assert.match(stdout, /bank says no_effect: it contradicts what is recorded, which stays/);
  const shown = await run("show", "booked/1");
  assert.match(shown.stdout, /^booked\/1 {2}charge_card 1 {2}accepted via dispatch\n/);
  assert.match(
    shown.stdout,
    /\n {2}contradicted +bank says no_effect against accepted at \S+, 100 usd_cents at stake\n/,
  );
  assert.match(
    shown.stdout,
    /contradicted +\w+ +from bank, says no_effect, evidence \w{12}: \{"statement":"without it"\}\n/,
  );
  assert.equal(await book.value("select contradicted from audit.effects where effect_id = $1", [id]), true);
});

test("evidence of cost beyond what is settled is charged, by an option or in the evidence itself", async () => {
  await enqueued("booked/2");
  const charged = await submit("bank", "booked/2", "cost", '{"invoice":9}', "--cost", "usd_cents=130");
  assert.match(charged.stdout, /what is beyond the settled cost is charged as overrun\n$/);
  const kept = await submit("bank", "booked/2", "cost", '{"cost":{"usd_cents":"120"}}');
  assert.deepEqual([kept.exit, kept.stdout.includes("kept for people")], [0, true]);
  const sql = "select c.overrun::int from audit.costs c join audit.effects using (effect_id) where name = 'booked/2'";
  assert.equal(await book.value(sql), 30);
});

test("one effect is named, and in one way", async () => {
  const evidence = ["--source", "bank", "--says", "accepted", "--evidence", '{"n":1}'];
  const wrong: readonly (readonly [code: string, exit: number, args: readonly string[]])[] = [
    ["usage_invalid", 2, evidence],
    ["usage_invalid", 2, [...evidence, "--key", "a", "--effect", "b"]],
    ["usage_invalid", 2, [...evidence, "--effect", "booked/1", "--cost", "usd_cents=1"]],
    ["effect_unknown", 4, [...evidence, "--effect", "nothing/1"]],
    ["PE109", 4, [...evidence, "--key", "0".repeat(32)]],
  ];
  for (const [code, exit, args] of wrong) {
    const refused = await refusal(["evidence", "submit", ...args], database);
    assert.deepEqual([refused.code, refused.exit], [code, exit], args.join(" "));
  }
});
