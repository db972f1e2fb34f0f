/** What the command line says when it is called wrongly: before any server is asked. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createProgram } from "../../src/cli/program.ts";
import { refusal } from "./refusal.ts";
import { cli, failing } from "./run.ts";

const NOBODY = "postgres://ana:hunter22-secret@127.0.0.1:1/none"; // port 1: nobody listens

/** With what each command needs to be complete. */
const COMMANDS: readonly (readonly string[])[] = [
  ["migrate"],
  ["worker"],
  ["doctor"],
  ["enqueue", "sure", "{}"],
  ["show", "order/1"],
  ["list"],
  ["unresolved"],
  ["reconcile", "--all", "--deadline", "1s"],
  ["status"],
  ["reconciliation", "show"],
  ["resolve", "order/1", "--as", "accepted", "--evidence", '{"n":1}', "--reason", "x"],
  ["accept-risk", "order/1", "--reason", "x"],
  ["evidence", "submit", "--source", "bank", "--effect", "order/1", "--says", "accepted", "--evidence", '{"n":1}'],
  ["source", "list"],
  ["explain", "order/1"],
  ["find", "ch_123"],
  ["cancel", "order/1"],
  ["pause", "--all", "--reason", "x"],
  ["resume", "--all", "--reason", "x"],
  ["task", "show", "customers/42"],
  ["budget", "show", "customers/42"],
  ["operation", "list"],
  ["actor", "revoke", "ana", "--reason", "x"],
  ["policy", "list"],
  ["approval", "list"],
  ["approver", "list"],
  ["ledger", "show"],
  ["apply", "test/fixtures/authority.json"],
  ["follow", "order/1"],
  ["recovery", "show"],
  ["audit", "verify"],
  ["denials"],
  ["history"],
];

describe("without a connection string", () => {
  test("every command but dev and demo refuses, and says how to give one", async () => {
    const visible = createProgram().commands.filter((command) => !("_hidden" in command && command._hidden));
    const known = [...COMMANDS.map(([name]) => name), "dev", "demo"].sort();
    assert.deepEqual(visible.map((command) => command.name()).sort(), known);
    for (const args of COMMANDS) {
      const { exit, code, hint } = await refusal(args);
      assert.deepEqual([exit, code], [2, "connection_string_missing"], args[0]);
      assert.match(hint, /DATABASE_URL/);
    }
  });

  test("people are told in two lines on stderr, without a stack", async () => {
    const { exit, stdout, stderr } = await cli(["list"]);
    assert.deepEqual([exit, stdout], [2, ""]);
    assert.match(stderr, /^connection_string_missing {2}no connection string was given\n {2}give --database .*\n$/);
  });

  test("--debug and PG_EFFECTS_DEBUG=1 add the stack", async () => {
    const [flag, variable] = await Promise.all([
      cli(["list", "--debug"]),
      cli(["list"], { environment: { PG_EFFECTS_DEBUG: "1" } }),
    ]);
    assert.match(flag.stderr, /\n {4}at .*connection\.ts/);
    assert.match(variable.stderr, /\n {4}at .*connection\.ts/);
  });
});

describe("wrong usage exits 2", () => {
  const wrong: readonly (readonly [what: string, args: readonly string[], code: string])[] = [
    ["an unknown command", ["lst"], "usage_invalid"],
    ["an unknown option", ["list", "--stat", "declined"], "usage_invalid"],
    ["an argument too many", ["list", "declined"], "usage_invalid"],
    ["an argument too few", ["show"], "usage_invalid"],
    ["a state of no effect", ["list", "--state", "done"], "usage_invalid"],
    ["a missing deadline", ["reconcile", "--all"], "usage_invalid"],
    ["a deadline that is no number", ["reconcile", "--all", "--deadline", "NaN"], "duration_invalid"],
    ["a deadline beyond 24 hours", ["reconcile", "--all", "--deadline", "25h"], "duration_invalid"],
    ["a deadline that has passed when it is heard of", ["reconcile", "--all", "--deadline", "1ms"], "duration_invalid"],
    [
      "a count that confirms nothing",
      ["reconcile", "--all", "--deadline", "1m", "--confirm-count", "3"],
      "usage_invalid",
    ],
    ["a wait without a unit", ["enqueue", "sure", "{}", "--wait", "10"], "duration_invalid"],
    ["a moment of no calendar", ["list", "--since", "2026-02-31x"], "moment_invalid"],
    ["a pause of nothing", ["pause", "--reason", "x"], "scope_invalid"],
    ["a pause of two scopes", ["pause", "--all", "--task", "t", "--reason", "x"], "scope_invalid"],
    ["a change without a reason", ["task", "revoke", "t"], "usage_invalid"],
    ["a budget without digits", ["budget", "set", "t", "usd_cents", "--reason", "x"], "usage_invalid"],
    ["a version that is none", ["operation", "withdraw", "charge_card", "one", "--reason", "x"], "number_invalid"],
    ["a command of tasks that there is not", ["task", "close", "t"], "usage_invalid"],
    ["a limit of none", ["list", "--limit", "0"], "number_invalid"],
    ["a concurrency beyond all bounds", ["worker", "--concurrency", "1e9"], "number_invalid"],
    ["what is not JSON", ["enqueue", "sure", "{note: 1}"], "json_invalid"],
    ["a file that is missing", ["enqueue", "sure", "@no/such/file.json"], "input_unreadable"],
    ["a connection string that is none", ["list", "--database", "localhost"], "connection_string_invalid"],
    ["a ledger name that can be none", ["list", "--ledger", "My Shop"], "ledger_name_invalid"],
    ["a database for dev", ["dev", "--database", NOBODY], "usage_invalid"],
  ];

  for (const [what, args, code] of wrong) {
    test(what, async () => {
      const refused = await refusal(args, args.includes("--database") ? undefined : NOBODY);
      assert.deepEqual([refused.exit, refused.code], [2, code]);
    });
  }

  test("of the real program as well, with one object on stdout where JSON is asked for", async () => {
    const [none, deadline] = await Promise.all([cli([]), failing(["reconcile", "--all", "--deadline", "NaN"])]);
    assert.deepEqual([none.exit, none.stdout], [2, ""]);
    assert.match(none.stderr, /^Usage: pg-effects .*usage_invalid {2}no command was given\n/s);
    assert.deepEqual([deadline.exit, deadline.code, deadline.stderr], [2, "duration_invalid", ""]);
  });

  test("a mistyped option is not repeated with the password that stands in it", async () => {
    const { stderr, exit } = await cli([`--databse=${NOBODY}`, "list"]);
    assert.equal(exit, 2);
    assert.match(stderr, /ana:\[password\]@127/);
    assert.ok(!stderr.includes("hunter22"));
  });
});

test("what is not built yet is refused as such, with exit code 4", async () => {
  const unbuilt = [["operation", "set", "charge_card"]];
  for (const args of unbuilt) {
    const { exit, code } = await refusal(args, NOBODY);
    assert.deepEqual([exit, code], [4, "0A000"], args.join(" "));
  }
});

test("every command's help gives each option a meaning and shows an example", () => {
  for (const command of createProgram().commands.filter((each) => each.description() !== "")) {
    for (const option of command.options) assert.notEqual(option.description, "", `${command.name()} ${option.flags}`);
    const printed: string[] = [];
    command.configureOutput({ writeOut: (text) => printed.push(text) });
    command.outputHelp();
    assert.match(printed.join(""), new RegExp(`\\nExamples?:\\n {2}pg-effects ${command.name()}`), command.name());
  }
});

test("--help and --version exit 0, on stdout", async () => {
  const [help, version] = await Promise.all([cli(["--help"]), cli(["--version"])]);
  assert.deepEqual([help.exit, help.stderr, version.exit, version.stderr], [0, "", 0, ""]);
  assert.match(help.stdout, /Exit codes:\n {2}0 {2}done/);
  assert.match(version.stdout, /^\d+\.\d+\.\d+\n$/);
});
