/** `worker` as a process: how it starts, what it refuses to start with, how it stops, and what it survives. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { refusal } from "./refusal.ts";
import { type Running, running, TASKS } from "./run.ts";

// The last test closes the ledger, which audit.violations then lists.
const book = await openTestLedger({ sound: false });
const database = book.connectionString;
let folder: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "pg-effects-"));
  book.atEnd(() => rm(folder, { recursive: true }));
});

async function startWorker(...more: readonly string[]): Promise<Running> {
  const worker = await running(["worker", "--tasks", TASKS, ...more], "sure", { database });
  book.atEnd(() => {
    if (worker.child.exitCode === null) worker.child.kill("SIGKILL");
  });
  return worker;
}

async function enqueue(operation: string, input: object): Promise<string> {
  return book.value("select effects.enqueue($1, $2::json)", [operation, JSON.stringify(input)]);
}

test("says when it is ready, stops by SIGTERM when what it dispatches has ended, and a second signal changes nothing", async () => {
  const until = join(folder, "answer");
  const worker = await startWorker("--json");
  const ready = JSON.parse(worker.stdout()) as Record<string, unknown>;
  assert.deepEqual([ready.event, ready.release, ready.operations], ["ready", "test", ["lost", "stray", "sure"]]);
  const id = await enqueue("sure", { note: "slow", until });
  await waitFor("it is admitted", () => book.value("select admitted_at from audit.effects where effect_id = $1", [id]));

  worker.child.kill("SIGTERM");
  await waitFor("it says that it stops", () => worker.stderr().includes("SIGTERM: admits nothing more"));
  worker.child.kill("SIGINT");
  await waitFor("it says that it stops already", () => worker.stderr().includes("SIGINT: it is stopping already"));
  await writeFile(until, "");

  const { exit, stderr } = await worker.ended;
  assert.equal(exit, 0);
  for (const line of stderr.trimEnd().split("\n"))
    assert.deepEqual(Object.keys(JSON.parse(line)), ["at", "level", "message"]);
  assert.equal(await book.value("select state from audit.effects where effect_id = $1", [id]), "accepted");
  assert.notEqual(
    await book.value("select stopped_at from effects_ledger.worker where worker = $1", [ready.worker]),
    null,
  );
});

test("SIGINT stops it as well", async () => {
  const worker = await startWorker();
  worker.child.kill("SIGINT");
  const { exit, stderr } = await worker.ended;
  assert.equal(exit, 0);
  // A line of its keeping may stand between (another worker of this file fell silent).
  assert.match(stderr, /info +SIGINT: admits nothing more[\s\S]*info +stopped\n$/);
});

test("outlives a promise that an operation left behind, and ends orderly by an exception, with exit code 1", async () => {
  const worker = await startWorker();
  await book.ended(await enqueue("stray", { leaves: "rejection" }));
  await waitFor("it is logged", () => worker.stderr().includes("nobody awaits me"));
  const after = await book.ended(await enqueue("sure", { note: "still here" }));
  assert.equal(after.state, "accepted");
  const id = await enqueue("stray", { leaves: "exception" });
  const { exit, stderr } = await worker.ended;
  assert.equal(exit, 1);
  assert.match(stderr, /an exception that nobody caught, thrown by an operation: Error: nobody catches me/);
  assert.match(stderr, /\nworker_crashed {2}.*\n {2}mend the operation; start it again\n$/);
  assert.doesNotMatch(stderr, /\n +at /);
  assert.equal((await book.ended(id)).state, "accepted");
});

describe("a folder of operations that cannot be run keeps it from starting", () => {
  const write = async (name: string, files: Readonly<Record<string, string>>) => {
    const path = join(folder, name);
    await mkdir(path);
    for (const [file, source] of Object.entries(files)) await writeFile(join(path, file), source);
    return path;
  };

  test("one that is missing, empty, or broken, each with its own code", async () => {
    const empty = await write("empty", { "readme.md": "nothing here" });
    const broken = await write("broken", { "broken.ts": "export default (;" });
    const throwing = await write("throwing", { "throwing.ts": 'throw new Error("no key in the environment");' });
    const [missing, none, syntax, thrown] = await Promise.all(
      [join(folder, "none"), empty, broken, throwing].map((tasks) => refusal(["worker", "--tasks", tasks], database)),
    );
    assert.deepEqual([missing?.exit, missing?.code], [2, "tasks_missing"]);
    assert.deepEqual([none?.exit, none?.code], [2, "tasks_empty"]);
    assert.deepEqual([syntax?.exit, syntax?.code], [1, "task_file_broken"]);
    assert.match(syntax?.message ?? "", /broken\.ts/);
    assert.deepEqual([thrown?.exit, thrown?.code], [1, "task_file_broken"]);
    assert.match(thrown?.message ?? "", /throwing\.ts.*no key in the environment/);
  });
});

test("on a closed ledger it says so, and reading goes on", async () => {
  await book.sql("update effects_ledger.identity set strict = strict"); // as a restore does, this renews its xmin
  const worker = await startWorker();
  const warning = /warning +the ledger is closed, nothing is admitted \(recovery_unacknowledged\)/;
  await waitFor("it says so", () => warning.test(worker.stderr()));
  worker.child.kill("SIGTERM");
  assert.equal((await worker.ended).exit, 0);
});
