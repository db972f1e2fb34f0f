/**
 * Jobs of one effect that meet in one batch: the ledger admits it once, and of those that asked one alone may send it
 * (protocol, section 5; cases 3 and 14). A prepared effect that is queued again while its job runs has two.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { admit } from "../../src/admit/admit.ts";
import { type RunningOperation, runningFacts } from "../../src/runtime.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { openRuntime } from "../harness/open-runtime.ts";
import { together } from "../harness/together.ts";
import { waitFor } from "../harness/wait.ts";

const JOBS = 20;

const subject = await openTestLedger();
const { ledger } = subject;
const counted = countedOperation("send_note");
const { operation, hits } = counted;
const { histories, sums } = together(subject, counted);

before(() => ledger.openTask("notes", { budgets: { usd_cents: 100n } }));

/** An effect that is prepared, paused, and has no job that runs. */
async function prepared(to: string): Promise<string> {
  await ledger.pause({ operation: "send_note", reason: "until its jobs are there" });
  const id = await ledger.enqueue(operation, { to, cents: 7 }, { task: "notes" });
  await waitFor("it is prepared and waits", () =>
    subject.value("select waiting_for = 'paused' from audit.effects where effect_id = $1", [id]),
  );
  return id;
}

test(`an effect with ${JOBS} jobs in one batch is sent once`, async () => {
  const worker = await subject.work({ operations: [operation], concurrency: JOBS });
  const id = await prepared("worker");
  const client = await subject.connect();
  await client.query("begin");
  await client.query(
    "select effects_queue.add_job('send_note', json_build_object('effect_id', $1::text)) from generate_series(2, $2)",
    [id, JOBS],
  );
  await client.query("select effects.resume('operation', 'send_note', 'its jobs are there')");
  await client.query("commit");
  assert.equal((await subject.ended(id)).state, "accepted");
  await subject.idle();
  await worker.stop();
  assert.equal(hits("worker"), 1);
  assert.deepEqual(await histories([id]), ["admitted accepted"]);
});

test("of candidates that are the same effect one is admitted, and the others are told that it is already", async () => {
  const worker = await subject.work({ operations: [operation] });
  const id = await prepared("batch");
  await worker.stop();
  await ledger.resume({ operation: "send_note", reason: "admitted by the test" });
  const [row] = await subject.sql<{ key: string; root: string }>(
    `select r.key, t.lineage[1] as root from effects_ledger.request r join effects_ledger.task t using (task_id)
      where r.effect_id = $1`,
    [id],
  );
  const runtime = openRuntime(subject, "one batch", operation);
  const running = runningFacts(runtime, runtime.operations.get("send_note") as RunningOperation);
  const candidate = { effectId: id, key: row?.key ?? "", root: row?.root ?? "", running, dispatchTimeoutMs: 30_000 };
  const [first, ...others] = await admit(runtime, [candidate, candidate, candidate]);
  assert.equal(first?.admission, "admitted");
  const already = { admission: "none", verdict: "already", code: null };
  assert.deepEqual(others, [already, already]);
  assert.equal(await sums("notes"), "7 7 0");
});
