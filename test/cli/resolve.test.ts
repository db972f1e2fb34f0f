/** `resolve` and `accept-risk` of one effect: what they print, record and exit with, and how `show` tells it afterwards. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { absent, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { refusal } from "./refusal.ts";
import { cli, cliJson } from "./run.ts";

const book = await openTestLedger();
const database = book.connectionString;
const run = (...args: readonly string[]) => cli(args, { database });
const { operation } = countedOperation("charge_card", {
  dispatch: () => unknown("the line went dead"),
  reconcile: async () => absent({ found: 0 }),
});
const folder = await mkdtemp(join(tmpdir(), "pg-effects-evidence-"));
book.atEnd(() => rm(folder, { recursive: true }));

before(async () => {
  await book.work({ operations: [operation] });
  await book.ledger.openTask("shop", { budgets: { usd_cents: 1_000_000n } });
});

/** An effect of 4,000 of which nobody knows whether it happened, by its name. */
async function doubted(name: string): Promise<string> {
  await book.ended(await book.ledger.enqueue(operation, { to: name, cents: 4_000 }, { task: "shop", name }));
  return name;
}
const resolution = async (name: string) =>
  (
    await book.sql<{ kind: string; says: string | null; body: unknown }>(
      `select r.kind, r.says, r.reason, r.reference, e.body from audit.resolutions r
         join audit.effects f using (effect_id)
         left join audit.evidence e on e.effect_id = r.effect_id and e.digest = r.evidence_digest
        where f.name = $1 order by r.at`,
      [name],
    )
  ).at(-1);
const why = ["--reason", "on the statement"];

test("a dry run says what it would do, and does nothing; then it is done, and the same again is the same", async () => {
  const name = await doubted("order/1");
  const resolve = [
    "resolve",
    name,
    "--as",
    "accepted",
    "--evidence",
    '{"statement":17}',
    "--reference",
    "ch_1",
    ...why,
  ];
  const dry = await run(...resolve, "--dry-run");
  assert.equal(dry.exit, 0);
  assert.match(
    dry.stdout,
    /^order\/1 would be resolved as accepted; nothing is changed\n {2}spends the maximum: 4000 usd_cents\n$/,
  );
  assert.equal(await resolution(name), undefined);

  const done = await run(...resolve);
  assert.deepEqual(
    [done.exit, done.stdout],
    [0, "resolved order/1 as accepted\n  spends the maximum: 4000 usd_cents\n"],
  );
  assert.deepEqual(await resolution(name), {
    kind: "evidence",
    says: "accepted",
    reason: "on the statement",
    reference: "ch_1",
    body: { statement: 17 },
  });
  const again = await cliJson<{ answer: string }>(resolve, { database });
  assert.deepEqual([again.exit, again.document.answer], [0, "same"]);
});

test("another word afterwards is refused, with who was first", async () => {
  const name = await doubted("order/2");
  await run("resolve", name, "--as", "failed", "--evidence", '{"answer":"no"}', ...why);
  const [other, risk] = await Promise.all([
    refusal(["resolve", name, "--as", "accepted", "--evidence", '{"answer":"yes"}', ...why], database),
    refusal(["accept-risk", name, ...why], database),
  ]);
  assert.deepEqual([other.exit, other.code, risk.exit, risk.code], [4, "PE119", 4, "PE119"]);
  assert.match(other.message, /was resolved by \w+ at .*, as failed/);
});

test("a measured cost is what is spent, and no effect spends nothing", async () => {
  const [measured, none] = [await doubted("order/3"), await doubted("order/4")];
  const cost = await run(
    "resolve",
    measured,
    "--as",
    "accepted",
    "--evidence",
    '{"n":1}',
    "--cost",
    "usd_cents=25",
    ...why,
  );
  assert.match(cost.stdout, /\n {2}spends 25 usd_cents, as measured\n/);
  const nothing = await run("resolve", none, "--as", "no_effect", "--evidence", '{"n":1}', ...why);
  assert.match(nothing.stdout, /\n {2}releases 4000 usd_cents\n/);
  const settled = await book.sql(
    "select name, settled from audit.costs join audit.effects using (effect_id) where name = any ($1) order by name",
    [[measured, none]],
  );
  assert.deepEqual(settled, [
    { name: measured, settled: "25" },
    { name: none, settled: "0" },
  ]);
});

test("a .json file is kept whole, any other by its name, size and SHA-256", async () => {
  const [whole, byDigest] = [await doubted("order/5"), await doubted("order/6")];
  const [json, pdf] = [join(folder, "answer.json"), join(folder, "statement.pdf")];
  const bytes = Buffer.from([0x25, 0x50, 0x44, 0x46, 0x00, 0xff]);
  await Promise.all([writeFile(json, '{"id":"ch_5", "status":"booked"}\n'), writeFile(pdf, bytes)]);
  const [first, second] = await Promise.all([
    run("resolve", whole, "--as", "accepted", "--evidence", json, ...why),
    run("resolve", byDigest, "--as", "accepted", "--evidence", pdf, ...why),
  ]);
  assert.deepEqual([first.exit, second.exit], [0, 0]);
  assert.deepEqual((await resolution(whole))?.body, { id: "ch_5", status: "booked" });
  assert.deepEqual((await resolution(byDigest))?.body, {
    file: "statement.pdf",
    sha256: createHash("sha256").update(bytes).digest("hex"),
    bytes: 6,
  });
});

test("what shows nothing is no evidence, and what cannot be read stops it", async () => {
  const name = await doubted("order/7");
  const empty = join(folder, "empty.txt");
  await writeFile(empty, "");
  const as = (evidence: string) =>
    refusal(["resolve", name, "--as", "accepted", "--evidence", evidence, ...why], database);
  const [nothing, words, gone, blank, repeated] = [
    await as("{}"),
    await as("the bank said so"),
    await as(join(folder, "gone.pdf")),
    await as(empty),
    await as('{"a":1,"a":2}'),
  ];
  assert.deepEqual([nothing.exit, nothing.code], [2, "22023"]);
  for (const refused of [words, gone, blank]) assert.deepEqual([refused.exit, refused.code], [2, "input_unreadable"]);
  assert.deepEqual([repeated.exit, repeated.code], [4, "PE102"]);
  assert.equal(await resolution(name), undefined);
});

test("an accepted risk spends the maximum and says nothing about what happened; evidence may follow", async () => {
  const name = await doubted("order/8");
  const risk = await run("accept-risk", name, "--reason", "too old to ask");
  assert.deepEqual(
    [risk.exit, risk.stdout],
    [0, "accepted the risk of order/8: whether it happened stays unknown\n  spends the maximum: 4000 usd_cents\n"],
  );
  const later = ["resolve", name, "--as", "no_effect", "--evidence", '{"letter":3}', ...why];
  const resolved = await run(...later);
  assert.match(
    resolved.stdout,
    /^resolved order\/8 as no_effect\n {2}its risk had been accepted, which spent the maximum/,
  );
  assert.equal((await cliJson<{ answer: string }>(later, { database })).document.answer, "same");

  const { exit, stdout } = await run("show", name);
  assert.equal(exit, 0);
  assert.match(stdout, /^order\/8 {2}charge_card 1 {2}uncertain, resolved as no_effect, by evidence\n/);
  assert.match(stdout, /\n {2}resolution +risk accepted, by \w+ at \S+ from operator: too old to ask\n/);
  assert.match(stdout, /\n {2}resolution +no_effect, by \w+ at \S+ from operator: on the statement\n/);
  assert.match(stdout, /resolved +\w+ +its risk accepted, too old to ask\n/);
  assert.match(stdout, /resolved +\w+ +on the statement, says no_effect, evidence [0-9a-f]{12}: \{"letter":3\}\n$/);
});

test("one effect or a list, and as what: nothing is guessed", async () => {
  const evidence = ["--evidence", '{"n":1}', ...why];
  const wrong: readonly (readonly string[])[] = [
    ["resolve", "order/1", ...evidence],
    ["resolve", "--as", "accepted", ...evidence],
    ["resolve", "order/1", "--as", "accepted", "--match", "key", ...evidence],
    ["resolve", "order/1", "--from", "list.csv", "--match", "key", ...evidence],
    ["resolve", "--from", "list.csv", ...evidence],
    ["resolve", "order/1", "--as", "accepted", "--cost", "much", ...evidence],
    ["accept-risk", ...why],
    ["accept-risk", "order/1", "--from", "list.csv", ...why],
  ];
  for (const args of wrong) {
    const refused = await refusal(args, database);
    assert.deepEqual([refused.exit, refused.code], [2, "usage_invalid"], args.join(" "));
  }
});
