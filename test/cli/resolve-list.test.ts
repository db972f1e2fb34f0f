/** `resolve --from` and `accept-risk --from`: a list of effects, each line reported, stopped and run again at will. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { refusal } from "./refusal.ts";
import { cli, running } from "./run.ts";

const book = await openTestLedger();
const database = book.connectionString;
const { operation } = countedOperation("charge_card", {
  dispatch: ({ target }) =>
    target.startsWith("booked") ? accepted({ receipt: target }) : unknown("the line went dead"),
});
const folder = await mkdtemp(join(tmpdir(), "pg-effects-list-"));
book.atEnd(() => rm(folder, { recursive: true }));

before(() => book.work({ operations: [operation] }));

/** Effects of these names, each with its key. Nobody knows whether they happened, but for those that are booked. */
async function doubted(...names: readonly string[]): Promise<readonly { id: string; key: string }[]> {
  const ids = await Promise.all(names.map((name) => book.ledger.enqueue(operation, { to: name, cents: 10 }, { name })));
  for (const id of ids) await book.ended(id);
  const rows = await book.sql<{ id: string; key: string }>(
    "select effect_id as id, key from audit.effects where effect_id = any ($1)",
    [ids],
  );
  return ids.map((id) => rows.find((row) => row.id === id) ?? assert.fail());
}
async function list(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, text);
  return path;
}
const from = (path: string, match: string, ...more: readonly string[]) => [
  ...["resolve", "--from", path, "--match", match, "--evidence", path, "--reason", "INC-91"],
  ...more,
];
const saysOf = (...names: readonly string[]) =>
  book.sql("select name, resolution, resolution_says as says from audit.effects where name = any ($1) order by name", [
    names,
  ]);

test("a bank's file: each line is reported, the run is repeatable, and one digest is the evidence of all", async () => {
  const [first, second, booked] = await doubted("bank/1", "bank/2", "booked/1");
  const text = `Datum;key;as;cost\n1.1.;${first?.key};accepted;usd_cents=7\n1.1.;${second?.key};no_effect;\n1.1.;${booked?.key};accepted;\n1.1.;${"0".repeat(32)};failed;\n1.1.;${second?.key};failed;\n`;
  const path = await list("bank.csv", text);
  const dry = await cli(from(path, "key", "--dry-run"), { database });
  assert.equal(dry.exit, 4);
  assert.match(dry.stdout, /^line 2 {2}[0-9a-f]{32} \(bank\/1\) {2}would be resolved as accepted\n/);
  assert.match(dry.stdout, /\nresolved 2, stands 1, refused 2; a dry run: nothing is changed\n$/);
  assert.equal(dry.stderr, "columns that say nothing here: Datum\n");
  assert.equal(await book.value("select count(*)::int from audit.resolutions"), 0);

  const done = await cli(from(path, "key"), { database });
  assert.equal(done.exit, 4);
  assert.match(
    done.stdout,
    /^line 2 {2}\S+ \(bank\/1\) {2}resolved as accepted\nline 3 {2}\S+ \(bank\/2\) {2}resolved as no_effect\n/,
  );
  assert.match(done.stdout, /\nline 4 {2}\S+ \(booked\/1\) {2}on record already\n/);
  assert.match(
    done.stdout,
    /\nline 5 {2}0{32} {2}refused: effect_unknown .*\nline 6 {2}\S+ {2}refused: effect_repeated {2}line 3 means/,
  );
  const evidence = await book.sql(
    "select e.body from audit.resolutions r join audit.evidence e on e.effect_id = r.effect_id and e.digest = r.evidence_digest order by r.at",
  );
  const file = { file: "bank.csv", sha256: createHash("sha256").update(text).digest("hex"), bytes: text.length };
  assert.deepEqual(evidence, [{ body: { ...file, line: 2 } }, { body: { ...file, line: 3 } }]);
  assert.equal(await book.value("select settled::int from audit.costs where effect_id = $1", [first?.id]), 7);

  const again = await cli(from(path, "key", "--json"), { database });
  const events = again.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    events.map(({ event, line, answer }) => [event, line, answer]),
    [
      ["line", 2, "same"],
      ["line", 3, "same"],
      ["line", 4, "stands"],
      ["line", 5, "refused"],
      ["line", 6, "refused"],
      ["ended", undefined, undefined],
    ],
  );
  assert.partialDeepStrictEqual(events.at(-1), {
    resolved: 0,
    same: 2,
    stands: 1,
    refused: 2,
    not_reached: 0,
    exit: 4,
  });
});

test("JSON lines, by name; a list beside its evidence names both; what was mended stands where it was done", async () => {
  await doubted("json/1", "json/2");
  const text = '{"effect":"json/1"}\n{"effect":"default:json/2"}\n';
  const [path, pdf] = [await list("ids.jsonl", text), await list("statement.pdf", "%PDF")];
  const resolve = [...from(path, "effect", "--as", "failed"), "--evidence", pdf];
  const done = await cli(resolve, { database });
  assert.deepEqual([done.exit, done.stdout.split("\n").at(-2)], [0, "resolved 2"]);
  const body = await book.value<object>(
    "select body from audit.evidence join audit.effects using (effect_id) where name = 'json/2' and source = 'operator'",
  );
  const sha256 = (bytes: string) => createHash("sha256").update(bytes).digest("hex");
  assert.deepEqual(body, {
    file: "statement.pdf",
    sha256: sha256("%PDF"),
    bytes: 4,
    list: { file: "ids.jsonl", sha256: sha256(text) },
    line: 2,
  });
  await list("ids.jsonl", `\n${text}`); // another file, and the same word
  const mended = await cli(resolve, { database });
  assert.deepEqual([mended.exit, mended.stdout.split("\n").at(-2)], [0, "stands 2"]);
  const other = await cli([...from(path, "effect", "--as", "accepted"), "--evidence", pdf], { database });
  assert.equal(other.exit, 4);
  assert.match(other.stdout, /refused: PE119 {2}already_resolved: .*, as failed\n/);
});

test("Ctrl-C stops between two lines, and says what was not reached; the rest is done by running it again", async () => {
  const effects = await doubted("slow/1", "slow/2", "slow/3");
  const path = await list("slow.csv", `effect\n${effects.map(({ id }) => id).join("\n")}\n`);
  const holder = await book.connect();
  await holder.query("begin");
  await holder.query("select from effects_ledger.effect where effect_id = $1 for update", [effects[1]?.id]);
  const pid = await holder.query<{ pid: number }>("select pg_backend_pid() as pid");
  const resolving = await running(from(path, "effect", "--as", "accepted"), "slow/1", { database });
  await waitFor("it waits for the second line's effect", () =>
    book.value("select exists (select from pg_stat_activity where $1 = any (pg_blocking_pids(pid)))", [
      pid.rows[0]?.pid,
    ]),
  );
  resolving.child.kill("SIGINT");
  await waitFor("it was heard", () => resolving.stderr().includes("stopping after the line that is under way"));
  await holder.query("rollback");
  const stopped = await resolving.ended;
  assert.equal(stopped.exit, 5);
  assert.match(stopped.stderr, /\nstopped before line 4: 1 not reached; run the same again/);
  assert.match(stopped.stdout, /\nresolved 2\n$/);

  const rest = await cli(from(path, "effect", "--as", "accepted"), { database });
  assert.deepEqual([rest.exit, rest.stdout.split("\n").at(-2)], [0, "resolved 1, same 2"]);
});

test("a mistake in the last line stops the first one, too", async () => {
  await doubted("strict/1");
  const lists = await Promise.all([
    list("as.csv", "effect,as\nstrict/1,accepted\nstrict/2,\n"),
    list("twice.csv", "effect,as\nstrict/1,accepted\n"),
    list("says.csv", "effect,as\nstrict/1,accepted\n"),
  ]);
  const [silent, twice, says] = await Promise.all([
    refusal(from(lists[0] ?? "", "effect"), database),
    refusal(from(lists[1] ?? "", "effect", "--as", "failed"), database),
    refusal(["accept-risk", "--from", lists[2] ?? "", "--reason", "x"], database),
  ]);
  assert.deepEqual([silent.exit, silent.code], [2, "list_invalid"]);
  assert.match(silent.message, /^line 3: it does not say as what/);
  assert.deepEqual([twice.exit, twice.code], [2, "usage_invalid"]);
  assert.deepEqual([says.exit, says.code], [2, "list_invalid"]);
  assert.deepEqual(await saysOf("strict/1"), [{ name: "strict/1", resolution: null, says: null }]);
});

test("accept-risk takes a list as well; what somebody accepted before stands", async () => {
  await doubted("risk/1", "risk/2");
  await book.sql("select effects.accept_risk(effect_id, 'somebody else') from audit.effects where name = 'risk/1'");
  const path = await list("risks.csv", "effect\nrisk/1\nrisk/2\n");
  const { exit, stdout } = await cli(["accept-risk", "--from", path, "--reason", "INC-91"], { database });
  assert.equal(exit, 0);
  assert.equal(stdout, "line 2  risk/1  on record already\nline 3  risk/2  its risk accepted\nresolved 1, stands 1\n");
  assert.deepEqual(
    await saysOf("risk/1", "risk/2"),
    ["risk/1", "risk/2"].map((name) => ({ name, resolution: "risk_accepted", says: null })),
  );
});

test("a reference that several effects have names none of them", async () => {
  await doubted("same/1", "same/2");
  await book.sql(
    "select effects.resolve(effect_id, 'accepted', '{\"n\": 1}', 'test', reference => 'ch_same') from audit.effects where name like 'same/%'",
  );
  const path = await list("same.csv", "reference\nch_same\nch_nobody\n");
  const { exit, stdout } = await cli(from(path, "reference", "--as", "accepted"), { database });
  assert.equal(exit, 4);
  assert.match(stdout, /^line 2 {2}ch_same {2}refused: effect_ambiguous {2}2 effects go by this reference: /);
  assert.match(stdout, /\nline 3 {2}ch_nobody {2}refused: effect_unknown /);
});
