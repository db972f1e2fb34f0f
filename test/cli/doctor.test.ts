/** `doctor`: what it looks at, what it says of it, and what it exits with. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { checkDurability, checkGrace, checkPredicateLocks, checkWorkers } from "../../src/cli/checks.ts";
import { closureOf } from "../../src/cli/closure.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { cli, cliJson, failing, running, TASKS } from "./run.ts";

// Its last tests break the record on purpose.
const book = await openTestLedger({ sound: false });
const database = book.connectionString;

interface DoctorDocument {
  readonly closed: boolean;
  readonly checks: readonly { readonly check: string; readonly verdict: string; readonly says: string }[];
}
const verdicts = ({ checks }: DoctorDocument) =>
  Object.fromEntries(checks.map(({ check, verdict }) => [check, verdict]));

test("a sound ledger without a worker is warned of, with one it is ok; exit code 0", async () => {
  const without = await cliJson<DoctorDocument>(["doctor"], { database });
  assert.deepEqual([without.exit, without.document.closed], [0, false]);
  assert.equal(verdicts(without.document).workers, "warn");

  const worker = await running(["worker", "--tasks", TASKS], "operations", { database });
  const { exit, stdout } = await cli(["doctor"], { database });
  worker.child.kill("SIGTERM");
  await worker.ended;
  assert.equal(exit, 0);
  const lines = stdout
    .trimEnd()
    .split("\n")
    .filter((line) => !/predicate locks|^ /.test(line)); // the server's own setting
  assert.ok(
    lines.every((line) => line.startsWith("ok    ")),
    stdout,
  );
  assert.match(stdout, /workers +1 alive: \S+, release test, heartbeat \d+ m?s, lost stray sure\n/);
  assert.match(stdout, /grace period +a worker may need 30 s to stop/);
});

test("jobs that a worker which stopped or was never heard of still holds are warned of; exit code 0", async () => {
  const id = await book.value<string>("select effects.enqueue('sure', '{\"note\":\"held\"}')");
  await book.sql(
    `update effects_queue._private_jobs set locked_by = 'a queue of nobody', locked_at = now() - interval '16 seconds'
      where key = $1`,
    [id],
  );
  const { exit, document } = await cliJson<DoctorDocument>(["doctor"], { database });
  assert.deepEqual([exit, verdicts(document).queue], [0, "warn"]);
  assert.match(document.checks.find(({ check }) => check === "queue")?.says ?? "", /^1 jobs are held/);
  await book.sql("delete from effects_queue._private_jobs where key = $1", [id]);
});

test("a broken invariant is counted and named; exit code 1", async () => {
  const id = await book.value<string>("select effects.enqueue('sure', '{\"note\":\"x\"}')");
  await book.sql("delete from effects_ledger.live where effect_id = $1", [id]);
  const { exit, document } = await cliJson<DoctorDocument>(["doctor"], { database });
  assert.deepEqual([exit, verdicts(document).violations], [1, "no"]);
  assert.match(document.checks.find(({ check }) => check === "violations")?.says ?? "", new RegExp(`^1; .*${id}`));
});

test("a migration that this version has and the database lacks is named; exit code 1", async () => {
  await book.sql(
    "delete from effects_migrations.applied where number = (select max(number) from effects_migrations.applied)",
  );
  const { exit, document } = await cliJson<DoctorDocument>(["doctor"], { database });
  assert.deepEqual([exit, verdicts(document).migrations], [1, "no"]);
});

test("a ledger in another database than its own is closed; exit code 6", async () => {
  await book.sql("update effects_ledger.identity set strict = strict"); // as a restore does, this renews its xmin
  const { exit, document } = await cliJson<DoctorDocument>(["doctor"], { database });
  assert.deepEqual([exit, document.closed, verdicts(document).ledger], [6, true, "no"]);
});

test("a server that takes no writes is no place for a request, and can be read; exit code 6", async () => {
  const readOnly = new URL(database);
  readOnly.searchParams.set("options", "-c default_transaction_read_only=on"); // a standby answers with the same code
  const [request, list] = await Promise.all([
    failing(["enqueue", "sure", '{"note":"x"}'], { database: readOnly.href }),
    cli(["list"], { database: readOnly.href }),
  ]);
  assert.deepEqual([request.exit, request.code, list.exit], [6, "25006", 0]);
});

describe("what this server cannot show", () => {
  const sound = {
    ledger_id: "",
    name: "shop",
    founded_at: new Date(0),
    standing: "ok",
    durability_gap: null,
    server_version: "18.1",
  } as const;

  test("a standby, and a server that may lose a confirmed commit, close the ledger", () => {
    assert.equal(closureOf(sound), null);
    assert.equal(closureOf({ ...sound, standing: "standby" })?.code, "ledger_standby");
    const risky = { ...sound, durability_gap: "fsync is off" };
    assert.equal(closureOf(risky)?.code, "durability_missing");
    assert.deepEqual([checkDurability(risky).verdict, checkDurability(sound).verdict], ["no", "ok"]);
  });

  test("predicate locks below what was measured are warned of", () => {
    const verdict = (per_page: number, per_relation: number) => checkPredicateLocks({ per_page, per_relation }).verdict;
    assert.deepEqual([verdict(300, 5_000), verdict(2, 5_000), verdict(300, 32)], ["ok", "warn", "warn"]);
  });

  test("a worker is silent after 15 seconds, and named beside the living", () => {
    const worker = (name: string, silent_ms: number) => ({
      worker: name,
      release: "4f2c1a",
      operations: ["charge_card"],
      started_at: new Date(0),
      heartbeat_at: new Date(0),
      silent_ms,
      running_ms: 60_000,
      queues: 1,
    });
    const queueless = { ...worker("alive", 1), queues: 0 };
    assert.match(checkWorkers([queueless]).says, /without a queue, so that it takes no job: alive$/);
    assert.equal(checkWorkers([{ ...queueless, running_ms: 15_000 }]).verdict, "ok"); // it may be starting
    const { verdict, says } = checkWorkers([worker("alive", 15_000), worker("gone", 15_001)]);
    assert.equal(verdict, "warn");
    assert.match(says, /^1 alive: alive, .*; silent without having stopped: gone \(15 s\)$/);
    assert.match(checkWorkers([worker("gone", 60_000)]).says, /none is alive.*fell silent 1 min ago/);
  });

  test("the grace period is the largest dispatch window, in whole seconds", () => {
    assert.match(checkGrace(1_001).says, /may need 2 s/);
    assert.equal(checkGrace(null).verdict, "ok");
  });
});
