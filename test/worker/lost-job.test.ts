/** What waits without a job gets one when a worker starts; what was admitted never gets one again (protocol, sections 5 and 13). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const { operation, hits } = countedOperation("send_note", {
  dispatch: ({ target }) => (target === "doubted" ? unknown("the line went dead") : accepted({ receipt: target })),
});

test("lost and used up jobs are queued again at a worker's start, and only those of what still waits", async () => {
  const first = await subject.work({ operations: [operation] });
  const sent = await ledger.enqueue(operation, { to: "sent" });
  const doubted = await ledger.enqueue(operation, { to: "doubted" });
  for (const id of [sent, doubted]) await subject.ended(id);
  await first.stop();

  const lost = await ledger.enqueue(operation, { to: "lost" });
  const usedUp = await ledger.enqueue(operation, { to: "used up" });
  const later = await ledger.enqueue(operation, { to: "later" }, { notBefore: new Date(Date.now() + 3_600_000) });
  await subject.sql("delete from effects_queue._private_jobs where key in ($1, $2)", [lost, later]);
  await subject.sql("update effects_queue._private_jobs set attempts = max_attempts where key = $1", [usedUp]);

  await subject.work({ operations: [operation] });
  for (const id of [lost, usedUp]) assert.equal((await subject.ended(id)).state, "accepted");
  await waitFor("the one that is to run later has its job again", () =>
    subject.value("select run_at > now() + interval '50 minutes' from effects_queue.jobs where key = $1", [later]),
  );
  assert.deepEqual(["sent", "doubted", "lost", "used up", "later"].map(hits), [1, 1, 1, 1, 0]);
  assert.equal(await subject.value("select string_agg(key, ' ') from effects_queue.jobs"), later);
});

test("a worker is on record by its heartbeat, with its release and operations, until it stops", async () => {
  const worker = await subject.work({ operations: [operation, countedOperation("send_other").operation] });
  const record = async () => {
    const [row] = await subject.sql<Record<string, unknown>>(
      `select release, operations, cardinality(pools) as pools, stopped_at is not null as stopped,
         heartbeat_at > started_at + interval '1 second' as beats from effects_ledger.worker where worker = $1`,
      [worker.id],
    );
    return row;
  };
  await waitFor("a second heartbeat", async () => (await record())?.beats);
  const running = { release: "test", operations: ["send_note", "send_other"], pools: 1, beats: true };
  assert.deepEqual(await record(), { ...running, stopped: false });
  await worker.stop();
  await worker.stop();
  assert.deepEqual(await record(), { ...running, stopped: true });
});
