/** What a worker says of operations that misuse their process or their secret: enough to act on, and never the secret. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { ROOT, type Running, running } from "./run.ts";

const book = await openTestLedger();
const database = book.connectionString;
const KEY = "sk_live_careless_1";
const FOLDER = join(ROOT, "test", "fixtures", "careless-tasks");

async function startWorker(...more: readonly string[]): Promise<Running> {
  const options = { database, environment: { CARELESS_KEY: KEY } };
  const worker = await running(["worker", "--tasks", FOLDER, ...more], "operations careless", options);
  book.atEnd(() => {
    if (worker.child.exitCode === null) worker.child.kill("SIGKILL");
  });
  return worker;
}

const enqueue = (does: string) =>
  book.value<string>("select effects.enqueue('careless', $1::json)", [JSON.stringify({ does })]);

function assertSecretNowhere(text: string): void {
  assert.ok(!text.includes(KEY), text);
  for (const word of text.match(/[\w+/]{8,}/g) ?? []) {
    assert.ok(!Buffer.from(word, "base64").toString().includes(KEY.slice(0, 8)), text);
  }
}

test("an operation that calls process.exit leaves a line that names the effect in doubt, and exit code 1", async () => {
  const worker = await startWorker();
  const id = await enqueue("exit");
  const { exit, stderr } = await worker.ended;
  assert.equal(exit, 1);
  assert.match(stderr, new RegExp(`error +process\\.exit\\(0\\) was called.*left unresolved: ${id}\\n$`));
});

test("a rejection and an exception that an operation leaves behind are told without its secret, stack and all", async () => {
  const worker = await startWorker("--debug");
  await enqueue("reject");
  await waitFor("it is logged", () => worker.stderr().includes("rejected with [CARELESS_KEY] and Basic "));
  await enqueue("throw later");
  const { exit, stderr } = await worker.ended;
  assert.equal(exit, 1);
  assert.match(stderr, /thrown with \[CARELESS_KEY\] and Basic /);
  assert.match(stderr, /\n +at .*careless\.ts/); // --debug
  assertSecretNowhere(stderr);
});

test("a plain task's fault is one line, and its last_error is clean and without a secret", async () => {
  const worker = await startWorker();
  const addJob = (payload: string, key: string) =>
    book.sql("select effects_queue.add_job('plain_note', $1::json, job_key => $2, max_attempts => 1)", [payload, key]);
  const lastError = (key: string) =>
    waitFor("it has failed", () =>
      book.value<string>("select last_error from effects_queue.jobs where key = $1", [key]),
    );
  await addJob('"one"', "one");
  const one = await lastError("one");
  assert.equal(one, 'plain fault with [CARELESS_KEY]\ufffd at "one"');
  await addJob('["good", "bad"]', "several");
  const several = await lastError("several");
  assert.match(several, /^Batch failures:\s+plain fault with \[CARELESS_KEY\]\ufffd at/);
  const left = "select payload from effects_queue._private_jobs where key = 'several'";
  assert.deepEqual(await book.value(left), ["bad"]);
  assert.match(worker.stderr(), /error +a job of plain_note failed, attempt 1 of 1: plain fault/);
  assert.doesNotMatch(worker.stderr(), /\n +at /);
  assertSecretNowhere(worker.stderr());
  worker.child.kill("SIGTERM");
  assert.equal((await worker.ended).exit, 0);
});
