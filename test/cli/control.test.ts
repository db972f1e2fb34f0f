/** `explain`, `pause`, `resume`, `task`, `budget`, `operation`, `actor`, `denials` and `history`: what they print and exit with. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { refusal } from "./refusal.ts";
import { cli, cliJson, failing, running, TASKS } from "./run.ts";

// The last test closes the ledger, which audit.violations then lists.
const book = await openTestLedger({ sound: false });
const database = book.connectionString;
const run = (...args: readonly string[]) => cli(args, { database });

interface Met {
  readonly dry_run: boolean;
  readonly waiting: number;
  readonly in_flight: readonly string[];
  readonly first_expires_at: string | null;
}

before(async () => {
  const worker = await running(["worker", "--tasks", TASKS], "operations lost stray sure", { database });
  book.atEnd(async () => {
    worker.child.kill("SIGTERM");
    assert.equal((await worker.ended).exit, 0);
  });
});

async function enqueue(operation: string, input: object, task: string, name: string): Promise<string> {
  return book.value("select effects.enqueue($1, $2::json, task => $3, name => $4)", [
    operation,
    JSON.stringify(input),
    task,
    name,
  ]);
}

const standing = (id: string, state: string) =>
  waitFor(
    `${id} is ${state}`,
    async () => (await book.value("select state from audit.effects where effect_id = $1", [id])) === state,
  );
const waits = (id: string, what: string) =>
  waitFor(`${id} waits for ${what}`, () =>
    book.value<boolean>("select waiting_for is not distinct from $2 from audit.effects where effect_id = $1", [
      id,
      what,
    ]),
  );
const authority = () => book.value<string>("select count(*) from audit.authority");

describe("pause and resume", () => {
  test("a dry run shows what waits and what is out already, and changes nothing; the pause itself does", async () => {
    const folder = await mkdtemp(join(tmpdir(), "pg-effects-"));
    book.atEnd(() => rm(folder, { recursive: true }));
    const file = join(folder, "answer");
    await book.sql("select effects.open_task('flying')");
    const flying = await enqueue("sure", { note: "in flight", until: file }, "flying", "flying/1");
    await standing(flying, "admitted");
    const pause = ["pause", "--task", "flying", "--reason", "INC-91", "--for", "1h"];

    const changes = await authority();
    const dry = await run(...pause, "--dry-run");
    assert.equal(dry.exit, 0);
    assert.match(
      dry.stdout,
      /^task flying would be paused until (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d; nothing is changed\n {2}waiting +0\n/,
    );
    assert.match(dry.stdout, new RegExp(`\\n {2}in flight +1 {2}beyond recall: ${flying.slice(-8)}\\n`));
    assert.equal(await authority(), changes);
    assert.deepEqual(await book.sql("select from audit.pauses"), []);

    const paused = await run(...pause);
    assert.match(paused.stdout, /^paused task flying until /);
    assert.match(paused.stdout, new RegExp(`beyond recall: ${flying.slice(-8)}\\n`));
    const kept = await book.value("select until - paused_at between '59 min' and '61 min' from audit.pauses");
    assert.equal(kept, true);
    const waiting = await enqueue("sure", { note: "waits" }, "flying", "flying/2");
    await waits(waiting, "paused");
    await writeFile(file, "");
    await standing(flying, "accepted"); // what was out already comes home

    const { document } = await cliJson<Met>(["resume", "--task", "flying", "--reason", "over"], { database });
    assert.partialDeepStrictEqual(document, { dry_run: false, waiting: 1, in_flight: [], unresolved: 0 });
    assert.ok(Date.parse(document.first_expires_at ?? "") > Date.now());
    await standing(waiting, "accepted");
  });

  test("refusals come as the ledger says them", async () => {
    const [unknown, nothing, empty] = await Promise.all([
      refusal(["pause", "--operation", "shure", "--reason", "x"], database),
      failing(["resume", "--all", "--reason", "x"], { database }),
      refusal(["pause", "--all", "--reason", " "], database),
    ]);
    assert.deepEqual([unknown.exit, unknown.code], [4, "PE101"]);
    assert.deepEqual([nothing.exit, nothing.code], [2, "22023"]);
    assert.match(nothing.hint, /audit\.pauses/);
    assert.deepEqual([empty.exit, empty.code], [2, "22023"]);
  });
});

describe("explain", () => {
  const EIGHT = [
    /^ {2}1 binding +ok$/,
    /^ {2}2 operation +(ok|no) {2}/,
    /^ {2}3 task +ok {2}shop's in default$/,
    /^ {2}4 policy +ok {2}ordinary$/,
    /^ {2}5 permit +ok {2}issued with the admission$/,
    /^ {2}6 budget +(ok|no)/,
    /^ {2}7 doubt +ok$/,
    /^ {2}8 ledger +ok$/,
  ];

  test("shows the eight checks, what it waits for, and the command that helps; and admission agrees", async () => {
    await book.sql(`select effects.open_task('shop''s', budgets => '[{"unit": "usd_cents", "limit": "5000"}]')`);
    await run("pause", "--operation", "lost", "--reason", "INC-92");
    const id = await enqueue("lost", { cents: 6_000, found: "busy" }, "shop's", "order/43/charge");
    await waits(id, "paused");

    const paused = await run("explain", "order/43/charge");
    assert.equal(paused.exit, 0);
    const [head, ...lines] = paused.stdout.split("\n");
    assert.match(head ?? "", /^order\/43\/charge {2}lost 1 {2}prepared \d\d:\d\d:\d\d, expires \d{4}-\d\d-\d\d \d\d:/);
    for (const [place, line] of EIGHT.entries()) assert.match(lines[place] ?? "", line);
    assert.match(lines[1] ?? "", /no {2}operation lost is paused: INC-92 +transient$/);
    assert.match(lines[5] ?? "", /no {2}shop's usd_cents: 5000 left, 6000 needed +final$/);
    assert.equal(lines[8], "waits for paused    pg-effects resume --operation lost --reason …");
    assert.match(lines[9] ?? "", /^ {2}somebody paused it/);

    // The ledger's own verdict when the pause is over is the next one of the lines.
    const raised = await run("budget", "set", "shop's", "usd_cents=6500", "--reason", "ana agreed");
    assert.match(
      raised.stdout,
      /^set usd_cents of task shop's\n {2}limit 6500, reserved 0, spent 0, overrun 0, left 6500\n$/,
    );
    const { document } = await cliJson<object>(["explain", id], { database });
    assert.partialDeepStrictEqual(document, { decides: "paused", waits_for: "paused" });
    await run("resume", "--operation", "lost", "--reason", "over");
    await standing(id, "admitted");

    // Now 6000 of 6500 are held in doubt.
    const second = await enqueue("lost", { cents: 1_000, found: "busy" }, "shop's", "order/44/charge");
    await waits(second, "budget");
    const held = await run("explain", "order/44/charge");
    assert.match(held.stdout, /\n {2}6 budget +no {2}shop's usd_cents: 500 left, 1000 needed +transient\n/);
    assert.match(
      held.stdout,
      /\nwaits for budget {4}pg-effects budget set 'shop'\\''s' usd_cents=… --reason …\n {2}its budget has room once/,
    );
  });

  test("says so of one that is not prepared yet, and of one that was decided", async () => {
    await book.sql(
      "select effects_ledger.register_operations((select json_agg(json_build_object('operation', 'orphan', 'version', 1," +
        " 'contract', contract, 'contract_digest', encode(contract_digest, 'hex'), 'input_schema', input_schema," +
        " 'implementation', implementation, 'release', release)) from effects_ledger.operation where operation = 'sure')::jsonb)",
    );
    await enqueue("orphan", { note: "x" }, "default", "orphan/1");
    const done = await enqueue("sure", { note: "x" }, "default", "done/1");
    await standing(done, "accepted");
    const [requested, accepted, unknown] = await Promise.all([
      run("explain", "orphan/1"),
      run("explain", "done/1"),
      refusal(["explain", "none/1"], database),
    ]);
    assert.equal(requested.exit, 0);
    assert.match(requested.stdout, /^orphan\/1 {2}orphan 1 {2}requested\n {2}not prepared yet/);
    assert.match(requested.stderr, /no live worker has orphan/);
    assert.equal(accepted.exit, 0);
    assert.equal(
      accepted.stdout,
      `done/1  sure 1  accepted via dispatch\n  decided already: pg-effects show ${done.slice(-8)}\n`,
    );
    assert.deepEqual([unknown.exit, unknown.code], [4, "effect_unknown"]);
  });
});

describe("task", () => {
  test("open prints the id, show where it stands, and end ends it with what is below", async () => {
    const open = ["task", "open", "customers/7", "--subject", "customer:7", "--deadline", "2h", "--budget"];
    const opened = await run(...open, "usd_cents=9007199254740993", "--budget", "mails=3");
    assert.equal(opened.exit, 0);
    assert.match(opened.stdout, /^[0-9a-f-]{36}\n$/);
    const again = await run("task", "open", "customers/7", "--subject", "customer:7");
    assert.equal(again.stdout, opened.stdout);
    await run("task", "open", "customers/7/orders", "--parent", "customers/7");
    const sent = await enqueue("sure", { note: "x" }, "customers/7/orders", "order/1");
    await standing(sent, "accepted");

    const shown = await run("task", "show", "customers/7");
    assert.equal(shown.exit, 0);
    assert.match(shown.stdout, /^default > customers\/7\n/);
    assert.match(shown.stdout, /\n {2}state +open\n {2}actor +postgres\n {2}subject +customer:7\n {2}deadline +\d/);
    assert.match(shown.stdout, /\n {2}effects +1 accepted\n/);
    assert.match(shown.stdout, /\n {2}usd_cents +9007199254740993 +0 +0 +0 +0 +9007199254740993 +\S+ by postgres\n$/);

    assert.match((await run("task", "end", "customers/7")).stdout, /^ended task customers\/7/);
    const below = await cliJson<{ state: string }>(["task", "show", "customers/7/orders"], { database });
    assert.match(below.document.state, /^ended \d\d:\d\d:\d\d, by customers\/7 above it$/);
    const [root, unknown, digits] = await Promise.all([
      refusal(["task", "end", "default"], database),
      refusal(["task", "show", "none"], database),
      refusal(["task", "open", "t", "--budget", "usd_cents=1e3"], database),
    ]);
    assert.deepEqual([root.exit, root.code], [4, "42501"]);
    assert.deepEqual([unknown.exit, unknown.code], [4, "task_unknown"]);
    assert.deepEqual([digits.exit, digits.code], [2, "22023"]);
  });

  test("revoke declines what waits; its dry run does not", async () => {
    await book.sql("select effects.open_task('agents/7'), effects.pause('task', 'agents/7', 'so that it waits')");
    const id = await enqueue("sure", { note: "x" }, "agents/7", "agent/1");
    await waits(id, "paused");
    const revoke = ["task", "revoke", "agents/7", "--reason", "its key leaked"];
    const dry = await run(...revoke, "--dry-run");
    assert.match(
      dry.stdout,
      /^task agents\/7 would be revoked, for good; nothing is changed\n {2}waiting +1 {2}declined as/,
    );
    assert.match((await run("task", "show", "agents/7")).stdout, /\n {2}state +paused by postgres, so that it waits\n/);
    const { document } = await cliJson<Met>(revoke, { database });
    assert.partialDeepStrictEqual(document, { dry_run: false, waiting: 1, in_flight: [] });
    await standing(id, "declined");
    assert.match((await run("task", "show", "agents/7")).stdout, /\n {2}state +revoked \d\d:/);
  });
});

test("budget set takes a lower limit and says that nothing more is admitted; show says what is in doubt", async () => {
  await book.sql(`select effects.open_task('cheap', budgets => '[{"unit": "usd_cents", "limit": "5000"}]')`);
  const id = await enqueue("lost", { cents: 4_000, found: "busy" }, "cheap", "cheap/1");
  await book.ended(id);
  const dry = await run("budget", "set", "cheap", "usd_cents=1000", "--reason", "too much", "--dry-run");
  assert.match(dry.stdout, /nothing is changed\n {2}limit 1000, .* left -3000\n$/);
  assert.match((await run("budget", "show", "cheap")).stdout, /\n {2}usd_cents +5000 +4000 +4000 +0 +0 +1000 /);
  const set = await run("budget", "set", "cheap", "usd_cents=1000", "--reason", "too much");
  assert.match(set.stderr, /-3000 left: nothing more is admitted/);
  const { document } = await cliJson<{ budgets: readonly object[] }>(["budget", "show", "cheap"], { database });
  assert.partialDeepStrictEqual(document.budgets, [
    { unit: "usd_cents", limit_amount: "1000", reserved_in_doubt: "4000", left_amount: "-3000" },
  ]);
  const [used, unknown] = await Promise.all([
    refusal(["budget", "set", "default", "usd_cents=5", "--reason", "x"], database),
    refusal(["budget", "set", "none", "usd_cents=5", "--reason", "x"], database),
  ]);
  assert.deepEqual([used.exit, used.code], [2, "22023"]);
  assert.deepEqual([unknown.exit, unknown.code], [4, "PE103"]);
});

test("operation list shows what was decided, operation withdraw and actor revoke take away for good", async () => {
  const withdrawn = await run("operation", "withdraw", "stray", "1", "--reason", "it throws");
  assert.match(withdrawn.stdout, /^withdrew operation stray 1\n {2}waiting +0\n/);
  const list = await run("operation", "list");
  assert.match(list.stdout, /^operation +registered +release +implementation +standing\n/);
  assert.match(list.stdout, /\nstray 1 +\S+ +test +[0-9a-f]{12} +withdrawn \S+, unprotected\n/);
  await book.sql("insert into effects_ledger.actor (actor, registered_by) values ('agent_7', 'test')");
  const revoke = ["actor", "revoke", "agent_7", "--reason", "its key leaked"];
  assert.match((await run(...revoke, "--dry-run")).stdout, /^actor agent_7 would be revoked, for good; nothing/);
  assert.match((await run(...revoke)).stdout, /^revoked actor agent_7\n/);
  const [version, actor] = await Promise.all([
    refusal(["operation", "withdraw", "stray", "2", "--reason", "x"], database),
    refusal(["actor", "revoke", "nobody", "--reason", "x"], database),
  ]);
  assert.deepEqual([version.exit, version.code], [4, "PE101"]);
  assert.deepEqual([actor.exit, actor.code], [4, "42501"]);
});

test("denials sums by rule, history says who changed what, from what to what and why", async () => {
  const [codes, tasks, history, json, nobody] = await Promise.all([
    run("denials", "--since", "1h"),
    cliJson<{ denials: readonly object[] }>(["denials", "--by", "task"], { database }),
    run("history", "--since", "1h"),
    cliJson<readonly object[]>(["history", "--by", "postgres", "--limit", "1"], { database }),
    run("history", "--by", "nobody"),
  ]);
  assert.match(codes.stdout, /^code +denials +last +hint\n|^code +denials +last {2,}hint\n/);
  assert.match(codes.stdout, /\npaused +\d+ +\d\d:\d\d:\d\d +transient +somebody paused it/);
  assert.match(codes.stdout, /\ntask_revoked +1 +\d\d:\d\d:\d\d +final +its task was revoked\n/);
  assert.ok(tasks.document.denials.some((sum) => JSON.stringify(sum).includes('"default > agents/7"')));
  assert.match(history.stdout, /^time \(UTC\) +who +change +reason\n/);
  assert.match(history.stdout, / {2}set budget usd_cents of task cheap +limit from 5000 to 1000 +too much\n/);
  assert.match(history.stdout, / {2}revoked task agents\/7 +its key leaked\n/);
  assert.match(
    history.stdout,
    / {2}resumed task flying +until was \S+, reason was INC-91, paused by was postgres +over\n/,
  );
  assert.partialDeepStrictEqual(json.document, [{ change: "actor revoked", object: "actor agent_7" }]);
  assert.deepEqual([nobody.exit, nobody.stdout], [0, ""]);
  assert.deepEqual(await book.sql("select * from audit.violations"), []);
});

test("explain exits 6 where the ledger is closed, whatever else stands against it", async () => {
  await book.sql("select effects.pause('all', null, 'so that it waits')");
  const id = await enqueue("sure", { note: "x" }, "default", "closed/1");
  await waits(id, "paused");
  await book.sql("update effects_ledger.identity set strict = strict"); // as a restore does, this renews its xmin
  const { exit, stdout } = await run("explain", "closed/1");
  assert.equal(exit, 6);
  assert.match(stdout, /\n {2}2 operation +no {2}everything is paused: so that it waits +transient\n/);
  assert.match(
    stdout,
    /\n {2}8 ledger +no {2}recovery_unacknowledged +transient\nwaits for recovery {4}pg-effects doctor\n/,
  );
});
