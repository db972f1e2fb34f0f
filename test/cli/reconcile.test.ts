/** `reconcile` against a ledger: what it asks for, what it shows while it watches, and what it exits with. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openTestLedger } from "../harness/ledger.ts";
import { refusal } from "./refusal.ts";
import { cli, failing, type Running, running, TASKS } from "./run.ts";

// The last test closes the ledger, which audit.violations then lists.
const book = await openTestLedger({ sound: false });
const database = book.connectionString;

/** Effects that are unresolved and what a lookup would find. Each task is a test's own scope. */
async function inDoubt(task: string, ...found: readonly ("charge" | "nothing" | "busy")[]): Promise<readonly string[]> {
  await book.sql("select effects.open_task($1)", [task]);
  const ids = await Promise.all(
    found.map((what) =>
      book.value<string>("select effects.enqueue('lost', $1::json, task => $2)", [
        JSON.stringify({ cents: 100, found: what }),
        task,
      ]),
    ),
  );
  for (const id of ids) await book.ended(id);
  return ids;
}

const reconcile = (task: string, ...more: readonly string[]) => [
  "reconcile",
  "--task",
  task,
  "--deadline",
  "20s",
  ...more,
];

async function stateOf(id: string | undefined): Promise<string> {
  return book.value("select state from audit.effects where effect_id = $1", [id]);
}

describe("with a worker", () => {
  let worker: Running;
  before(async () => {
    worker = await running(["worker", "--tasks", TASKS], "operations lost", { database });
  });
  after(async () => {
    worker.child.kill("SIGTERM");
    assert.equal((await worker.ended).exit, 0);
  });

  test("proof is recorded, and shown in a table; exit code 0", async () => {
    const [id] = await inDoubt("found", "charge");
    const { exit, stdout } = await cli(["reconcile", "--effect", id?.slice(-8) ?? "", "--deadline", "20s"], {
      database,
    });
    assert.equal(exit, 0);
    assert.match(stdout, /^reconciliation [0-9a-f-]{36} {2}1 in scope, lookup\n/);
    assert.match(
      stdout,
      /\nfinished {2}1 of 1 asked\noperation {2}found +recorded +effects\nlost +accepted +accepted +1\n$/,
    );
    assert.equal(await stateOf(id), "accepted");
  });

  test("what becomes uncertain exits 3 by default, and is not asked about again", async () => {
    const [id] = await inDoubt("absent", "nothing");
    const { exit, stdout } = await cli(reconcile("absent"), { database });
    assert.equal(exit, 3);
    assert.match(stdout, /lost +absent +uncertain +1\n/);
    assert.match(stdout, /exit 3 {6}1 in scope is unresolved\n$/);
    assert.equal(await stateOf(id), "uncertain");
    const [again, any] = await Promise.all([
      cli(reconcile("absent"), { database }),
      cli(reconcile("absent", "--fail-on", "any"), { database }),
    ]);
    assert.deepEqual([again.exit, any.exit], [0, 0]);
    assert.match(again.stdout, /nothing in scope is in doubt\n$/);
  });

  test("--fail-on says what exits 3: what became uncertain, anything unresolved, or nothing", async () => {
    await inDoubt("unreachable", "busy");
    const exits: unknown[] = [];
    // One after the other: an effect is inspected by one request at a time.
    for (const failOn of ["new", "any", "none"]) {
      exits.push((await cli(reconcile("unreachable", "--fail-on", failOn), { database })).exit);
    }
    assert.deepEqual(exits, [0, 3, 0]);
    await inDoubt("uncertain but none", "nothing");
    assert.equal((await cli(reconcile("uncertain but none", "--fail-on", "none"), { database })).exit, 0);
  });

  test("a fence over several effects wants their number confirmed, and then ends the doubt", async () => {
    const ids = await inDoubt("fenced", "nothing", "nothing");
    const unconfirmed = await refusal(reconcile("fenced", "--allow-fence"), database);
    assert.deepEqual([unconfirmed.exit, unconfirmed.code], [4, "PE111"]);
    const { exit, stdout } = await cli(reconcile("fenced", "--allow-fence", "--confirm-count", "2"), { database });
    assert.equal(exit, 0);
    assert.match(stdout, /lost +fenced +no_effect +2\n/);
    assert.deepEqual(await Promise.all(ids.map(stateOf)), ["no_effect", "no_effect"]);
  });

  test("--json is one event a line: requested, each inspection, ended", async () => {
    const ids = await inDoubt("streamed", "charge", "busy");
    const { exit, stdout, stderr } = await cli(reconcile("streamed", "--json", "--fail-on", "any"), { database });
    assert.deepEqual([exit, stderr], [3, ""]);
    const events = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(
      events.map(({ event }) => event),
      ["requested", "inspection", "inspection", "ended"],
    );
    const inspected = events.filter(({ event }) => event === "inspection");
    assert.deepEqual(inspected.map(({ effect_id }) => effect_id).sort(), [...ids].sort());
    const { in_scope, recorded, left_open, not_asked } = events.at(-1) ?? {};
    assert.deepEqual([in_scope, recorded, left_open, not_asked], ["2", "1", "1", "0"]);
  });

  test("what is not in doubt, or not there, is refused", async () => {
    const [id] = await inDoubt("settled", "charge");
    assert.equal((await cli(reconcile("settled"), { database })).exit, 0);
    const [settled, unknown, scopes] = await Promise.all([
      refusal(["reconcile", "--effect", id ?? "", "--deadline", "1s"], database),
      refusal(["reconcile", "--effect", "nothing/1", "--deadline", "1s"], database),
      refusal(["reconcile", "--all", "--task", "settled", "--deadline", "1s"], database),
    ]);
    assert.deepEqual([settled.exit, settled.code], [4, "PE110"]);
    assert.deepEqual([unknown.exit, unknown.code], [4, "effect_unknown"]);
    assert.deepEqual([scopes.exit, scopes.code], [2, "scope_invalid"]);
  });

  test("what waits for the tests without a worker", async () => {
    await inDoubt("alone", "charge");
  });
});

describe("without a worker", () => {
  test("it is said at once that nobody will do it, and the deadline exits 5", async () => {
    const { exit, stdout, stderr } = await cli(["reconcile", "--task", "alone", "--deadline", "1s"], { database });
    assert.equal(exit, 5);
    assert.match(stderr, /^no live worker has lost: it will not run without one/);
    assert.match(stdout, /\nexpired {2}0 of 1 asked\n/);
    assert.match(stdout, /lost +admitted +\S+ m?s +not reached\n/);
  });

  test("Ctrl-C ends the watching and not the reconciliation", async () => {
    const watching = await running(["reconcile", "--task", "alone", "--deadline", "10m"], "in scope", { database });
    watching.child.kill("SIGINT");
    const { exit, stdout, stderr } = await watching.ended;
    const id = /^reconciliation (\S+)/.exec(stdout)?.[1] ?? "";
    assert.equal(exit, 130);
    assert.match(stderr, new RegExp(`no longer watched; reconciliation ${id} goes on until its deadline`));
    assert.equal(await book.value("select ended from audit.reconciliations where reconciliation_id = $1", [id]), null);
  });

  test("a closed ledger is not asked to, with exit code 6", async () => {
    await book.sql("update effects_ledger.identity set strict = strict"); // as a restore does, this renews its xmin
    const closed = await failing(["reconcile", "--all", "--deadline", "1s"], { database });
    assert.deepEqual([closed.exit, closed.code], [6, "recovery_unacknowledged"]);
  });
});
