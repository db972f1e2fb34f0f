/** `operation allow` and `protect`, `policy` and `ledger`: what they print and exit with, and what `explain` says of it. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { refusal } from "./refusal.ts";
import { cli, cliJson, running, TASKS } from "./run.ts";

const book = await openTestLedger();
const database = book.connectionString;
const run = (...args: readonly string[]) => cli(args, { database });
/** The answer of whatever is sent to `lost/…` is lost; what is sent to one customer stands in one lane. */
const charge = countedOperation("charge_card", {
  contract: { targetDelimiter: "/", lane: ({ to }) => to.split("/")[1] ?? to },
  dispatch: () => unknown("the line went dead"),
});

before(async () => {
  await book.work({ operations: [charge.operation] });
  await book.ledger.openTask("shop", { budgets: { usd_cents: 10_000n } });
});

const enqueue = (to: string, task = "shop") =>
  book.ledger.enqueue(charge.operation, { to, cents: 1_000 }, { task, name: to });
const waits = (id: string, code: string) =>
  waitFor(`it waits: ${code}`, () =>
    book.value<boolean>(
      "select state = 'prepared' and denial_code is not distinct from $2 from audit.effects where effect_id = $1",
      [id, code],
    ),
  );
const add = (name: string, ...options: readonly string[]) =>
  run("policy", "add", name, "--operation", "charge_card", "--operation-version", "1", ...options, "--reason", "test");

describe("operation", () => {
  test("protect says what of it waits and that there is no way back; its dry run protects nothing", async () => {
    await book.sql("select effects.pause('operation', 'charge_card', 'so that it waits')");
    const id = await enqueue("early/1");
    await waits(id, "paused");
    const protect = ["operation", "protect", "charge_card", "--reason", "it moves money"];
    const dry = await run(...protect, "--dry-run");
    assert.equal(dry.exit, 0);
    assert.match(
      dry.stdout,
      /^operation charge_card would be protected, for good; nothing is changed\n {2}waiting +1 {2}declined where no /,
    );
    assert.equal(await book.value("select protected from audit.operations where operation = 'charge_card'"), false);
    assert.match((await run(...protect)).stdout, /^protected operation charge_card, for good\n {2}waiting +1 /);
    await book.sql("select effects.resume('operation', 'charge_card', 'over')");
    const standing = await book.ended(id);
    assert.ok(standing.state === "declined" && standing.code === "operation_not_allowed");
    assert.match(
      (await run("operation", "list")).stdout,
      /\ncharge_card 1 +\S+ +test +[0-9a-f]{12} +protected, not allowed\n/,
    );
  });

  test("allow takes the digest that was reviewed, or its beginning, and refuses another", async () => {
    const digest = await book.value<string>(
      "select implementation from audit.operations where operation = 'charge_card'",
    );
    const allow = ["operation", "allow", "charge_card", "1", "--reason", "reviewed", "--implementation"];
    const other = await refusal([...allow, "0".repeat(64)], database);
    assert.deepEqual([other.exit, other.code], [2, "22023"]);
    assert.ok(other.message.includes(digest));
    const short = await refusal([...allow, "0".repeat(12)], database);
    assert.deepEqual([short.exit, short.code], [2, "22023"]);
    const allowed = await run(...allow, digest.slice(0, 12));
    assert.equal(allowed.stdout, `allowed operation charge_card 1, release test\n  implementation ${digest}\n`);
    assert.match((await run("operation", "list")).stdout, /\ncharge_card 1 .* protected, allowed \S+ by postgres\n/);
    const unknownVersion = await refusal(["operation", "allow", "charge_card", "2", "--reason", "x"], database);
    assert.deepEqual([unknownVersion.exit, unknownVersion.code], [4, "PE101"]);
  });
});

describe("policy", () => {
  test("add takes every rule, and list shows what it covers, wants and has used", async () => {
    const added = await add(
      "whole",
      ...[
        "--task",
        "shop",
        "--actor",
        "agent_7",
        "--target-prefix",
        "cards/",
        "--cost",
        "usd_cents=4000",
        "--cost",
        "mails=1",
      ],
      ...[
        "--admissions",
        "9007199254740991",
        "--open",
        "20",
        "--approvals",
        "2",
        "--approver",
        "ana",
        "--approver",
        "ben",
      ],
      ...["--allow-requester", "--prepared-within", "10m", "--expires", "2h"],
    );
    assert.deepEqual([added.exit, added.stdout], [0, "added policy whole\n"]);
    const { stdout } = await run("policy", "list");
    assert.match(stdout, /^policy +covers +wants +used +standing\n/);
    assert.match(
      stdout,
      /\nwhole +charge_card 1 under shop, by agent_7, target begins cards\/, at most 1 mails, 4000 usd_cents {2}/,
    );
    assert.match(stdout, / {2}2 approvals of ana, ben, also the requester's, prepared within 10 min {2}/);
    assert.match(stdout, / {2}0 of 9007199254740991 admissions, 0 of 20 open +added \S+ by postgres, until \d/);
    const { document } = await cliJson<readonly object[]>(["policy", "list"], { database });
    assert.partialDeepStrictEqual(document, [
      {
        name: "whole",
        target: "cards/",
        target_match: "prefix",
        admissions_max: "9007199254740991",
        costs: { mails: "1", usd_cents: "4000" },
        approvers: ["ana", "ben"],
        requester_excluded: false,
        prepared_within_ms: 600_000,
      },
    ]);
  });

  test("add is refused in the ledger's words, and wrong usage before any server is asked", async () => {
    const policy = ["policy", "add", "p", "--operation", "charge_card", "--operation-version", "1", "--reason", "x"];
    const cases: readonly (readonly [options: readonly string[], exit: number, code: string])[] = [
      [["--task", "none"], 4, "PE103"],
      [["--approvals", "2", "--approver", "ana"], 2, "22023"],
      [["--target-prefix", "cards"], 2, "22023"],
      [["--precondition-enforced"], 2, "22023"],
      [["--target", "a", "--target-prefix", "b/"], 2, "usage_invalid"],
      [["--cost", "usd_cents=1", "--cost", "usd_cents=2"], 2, "usage_invalid"],
      [["--cost", "usd_cents"], 2, "usage_invalid"],
      [["--admissions", "0"], 2, "number_invalid"],
      [["--expires", "soon"], 2, "moment_invalid"],
    ];
    for (const [options, exit, code] of cases) {
      const refused = await refusal([...policy, ...options], database);
      assert.deepEqual([refused.exit, refused.code], [exit, code], options.join(" "));
    }
    const taken = await refusal(["policy", "add", "whole", ...policy.slice(3)], database);
    assert.deepEqual([taken.exit, taken.code], [4, "PE112"]);
    const version = await refusal([...policy.slice(0, 5), "--operation-version", "9", "--reason", "x"], database);
    assert.deepEqual([version.exit, version.code], [4, "PE101"]);
  });

  test("revoke declines what waits under it; its dry run does not", async () => {
    await add(
      "revoked",
      "--task",
      "shop",
      "--target",
      "revoked/1",
      "--cost",
      "usd_cents=1000",
      "--approvals",
      "1",
      "--approver",
      "ana",
    );
    const id = await enqueue("revoked/1");
    await waits(id, "approval_required");
    const revoke = ["policy", "revoke", "revoked", "--reason", "INC-91"];
    const dry = await run(...revoke, "--dry-run");
    assert.match(
      dry.stdout,
      /^policy revoked would be revoked, for good; nothing is changed\n {2}waiting +1 {2}declined as revoked/,
    );
    assert.equal((await book.ledger.observe(id))?.state, "prepared");
    assert.match((await run(...revoke)).stdout, /^revoked policy revoked\n {2}waiting +1 /);
    const standing = await book.ended(id);
    assert.ok(standing.state === "declined" && standing.code === "policy_revoked");
    assert.match((await run("policy", "list")).stdout, /\nrevoked .* revoked \d\d:/);
    const none = await refusal(["policy", "revoke", "none", "--reason", "x"], database);
    assert.deepEqual([none.exit, none.code], [4, "PE113"]);
  });
});

describe("explain", () => {
  test("prints the numbers of each check, what it waits for, and the command that helps", async () => {
    await add(
      "bounded",
      "--task",
      "shop",
      "--target-prefix",
      "lost/",
      "--cost",
      "usd_cents=1000",
      "--open",
      "1",
      "--admissions",
      "9",
    );
    const first = await enqueue("lost/a");
    await book.ended(first); // unresolved: it stays open
    const second = await enqueue("lost/b");
    await waits(second, "doubt_limit");
    const doubt = (await run("explain", "lost/b")).stdout.split("\n");
    assert.match(doubt[2] ?? "", /^ {2}2 operation +ok {2}allowed \S+ by postgres$/);
    assert.match(doubt[3] ?? "", /^ {2}3 task +ok {2}shop in default$/);
    assert.match(doubt[4] ?? "", /^ {2}4 policy +ok {2}bounded, 8 admissions left, automatic$/);
    assert.match(doubt[6] ?? "", /^ {2}6 budget +ok {2}usd_cents 1000 of 9000 left in shop$/);
    assert.match(doubt[7] ?? "", /^ {2}7 doubt +no {2}bounded: 1 of 1 open +transient$/);
    assert.equal(doubt[9], "waits for doubt    pg-effects reconcile --operation charge_card --deadline 15m");

    await add("lanes", "--task", "shop", "--target-prefix", "lane/", "--cost", "usd_cents=1000");
    await book.ended(await enqueue("lane/ana/1"));
    await waits(await enqueue("lane/ana/2"), "lane_busy");
    const lane = (await run("explain", "lane/ana/2")).stdout;
    assert.match(lane, /\n {2}4 policy +ok {2}lanes, automatic\n/);
    assert.match(lane, /\n {2}7 doubt +no {2}lane ana has an open effect +transient\n/);
    assert.match(lane, /\nwaits for lane {4}pg-effects unresolved\n/);

    await add(
      "asked",
      "--task",
      "shop",
      "--target-prefix",
      "asked/",
      "--cost",
      "usd_cents=1000",
      "--approvals",
      "1",
      "--approver",
      "ana",
    );
    const asked = await enqueue("asked/1");
    await waits(asked, "approval_required");
    const approval = (await run("explain", "asked/1")).stdout;
    assert.match(approval, /\n {2}4 policy +no {2}asked, 0 of 1 approvals +transient\n/);
    assert.match(approval, /\n {2}7 doubt +ok {2}0 open, lane 1 is free\n/);
    assert.match(
      approval,
      new RegExp(`\\nwaits for approval {4}pg-effects approval approve ${asked.slice(-8)} --key …\\n`),
    );
    const { document } = await cliJson<{ checks: readonly { check: string; standing: object }[] }>(["explain", asked], {
      database,
    });
    assert.deepEqual(document.checks.find(({ check }) => check === "policy")?.standing, {
      policy: "asked",
      approvals: "0 of 1",
    });
  });
});

describe("ledger", () => {
  test("show says which it is; set makes it strict and names what is not allowed; its dry run does not", async () => {
    const id = await book.value<string>("select ledger_id from audit.ledger");
    const shown = await run("ledger", "show");
    assert.equal(shown.exit, 0);
    assert.match(
      shown.stdout,
      new RegExp(
        `^ledger +default\\nid +${id}\\nepoch +\\S+\\nfounded +.*\\nstrict +off\\nroles +none.*\\nstanding +open\\n$`,
      ),
    );
    await book.sql(
      "select effects_ledger.register_operations((select json_agg(json_build_object('operation', 'orphan', 'version', 1," +
        " 'contract', contract, 'contract_digest', encode(contract_digest, 'hex'), 'input_schema', input_schema," +
        " 'implementation', implementation, 'release', release)) from effects_ledger.operation)::jsonb)",
    );
    const set = ["ledger", "set", "--strict", "on", "--reason", "no unreviewed adapter"];
    const dry = await run(...set, "--dry-run");
    assert.equal(dry.stdout, "ledger default would be strict; nothing is changed\n");
    assert.match(dry.stderr, /^not allowed, so nothing of them is admitted: orphan 1; /);
    assert.equal(await book.value("select strict from audit.ledger"), false);
    assert.equal((await run(...set)).stdout, "ledger default is strict\n");
    assert.match((await run("ledger", "show")).stdout, /\nstrict +on: every operation is protected\n/);
    const wrong = await refusal(["ledger", "set", "--strict", "yes", "--reason", "x"], database);
    assert.deepEqual([wrong.exit, wrong.code], [2, "usage_invalid"]);
  });

  test("a strict ledger's worker refuses to start beside a task file that is no operation", async () => {
    const { exit, stderr } = await cli(["worker", "--tasks", "test/fixtures/mixed-tasks"], { database });
    assert.equal(exit, 4);
    assert.match(stderr, /strict_ledger {2}the ledger is strict, and the task file tidy_up is no operation\n/);
    await run("ledger", "set", "--strict", "off", "--reason", "the other half of this test");
    const worker = await running(["worker", "--tasks", "test/fixtures/mixed-tasks"], "operations", { database });
    worker.child.kill("SIGTERM");
    assert.equal((await worker.ended).exit, 0);
    await run("ledger", "set", "--strict", "on", "--reason", "as before");
    const strict = await running(["worker", "--tasks", TASKS], "operations lost stray sure", { database });
    strict.child.kill("SIGTERM");
    assert.equal((await strict.ended).exit, 0);
  });
});
