/**
 * A queue session that ends while a job is completed or failed: graphile-worker would end the whole worker. It goes on, and
 * no job is left behind or runs twice.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { Working } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const answer = latch();
const { operation, hits } = countedOperation("send_note", {
  dispatch: async ({ target }) => {
    if (target === "held") await answer.opened;
    return { report: "accepted", proof: { receipt: target } };
  },
});
let worker: Working;
let ended = "not yet";

before(async () => {
  worker = await subject.work({ operations: [operation] });
  worker.ended.then(
    () => {
      ended = "by itself";
    },
    (error: unknown) => {
      ended = String(error);
    },
  );
});

/** Lets no job be written, so often as a session that tries to is ended. */
async function cutFinishing(times: number, begin: () => unknown): Promise<void> {
  const holder = await subject.connect();
  await holder.query("begin; lock table effects_queue._private_jobs in share mode");
  try {
    begin();
    for (let time = 1; time <= times; time++) {
      await waitFor("a session waits to end the job", async () => {
        const cut = await subject.sql(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock' and application_name = 'pg-effects queue'
              and query ~ '^delete from|set\\s+last_error'`,
        );
        return cut.length > 0;
      });
    }
  } finally {
    await holder.query("commit");
  }
}

test("a completed job whose session ends, three times over, is completed", async () => {
  const id = await subject.ledger.enqueue(operation, { to: "held" });
  await waitFor("it has arrived", () => hits("held") === 1);
  await cutFinishing(3, () => answer.open());
  assert.equal((await subject.ended(id)).state, "accepted");
  await subject.idle();
  assert.equal(hits("held"), 1);
});

test("a failed job whose session ends is on record as failed", async () => {
  const unknown = "00000000-0000-7000-8000-000000000000";
  const loading = await subject.connect();
  await loading.query("begin; lock table effects_ledger.policy in access exclusive mode");
  await subject.sql(
    "select effects_queue.add_job('send_note', json_build_object('effect_id', $1::text), job_key => 'unknown')",
    [unknown],
  );
  await waitFor("its handler loads an effect that is not there", () =>
    subject.value(
      "select true from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ~ 'load_effects'",
    ),
  );
  await cutFinishing(1, () => loading.query("commit"));
  const failed = "select last_error from effects_queue.jobs where key = 'unknown' and locked_at is null";
  assert.match(await waitFor("its failure is recorded", () => subject.value<string>(failed)), /there is no effect/);
  await subject.sql("delete from effects_queue._private_jobs where key = 'unknown'");
});

test("the worker has lived through it, and works", async () => {
  const id = await subject.ledger.enqueue(operation, { to: "next" });
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(ended, "not yet");
});
