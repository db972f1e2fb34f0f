/** SIGTERM: admits nothing more, lets what runs use its window, exits 0 (protocol, section 6; case 1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { respondJson } from "../../src/demo/recipients/webhook-answers.ts";
import postNote from "../fixtures/worker-tasks/post_note.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startRecipient } from "../harness/recipient.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const recipient = await startRecipient(subject);

test("a worker that is told to end lets a dispatch finish and exits 0, and the next one does not send it again", async () => {
  recipient.receiver.answerWith(respondJson(200, { receipt: "first" }), respondJson(200, { receipt: "second" }));
  const first = await subject.child();
  const held = recipient.holdReply("running");
  const id = await ledger.enqueue(postNote, { url: recipient.url("running") });
  await held.reached;
  await first.terminate();
  const next = await subject.child();
  assert.deepEqual({ ...(await ledger.observe(id)) }, { state: "admitted", unresolved: false });
  held.release();
  assert.equal(await first.exited, 0, first.output());
  assert.equal(first.output(), "");
  const accepted = { state: "accepted", proof: { receipt: "first" }, via: "dispatch", cost: {} };
  assert.deepEqual({ ...(await ledger.observe(id)) }, accepted);
  await subject.idle();

  // The next worker is given the very same job.
  const job = "select effects_queue.add_job('post_note', json_build_object('effect_id', $1::text), job_key => $1)";
  await subject.sql(job, [id]);
  await subject.idle();
  assert.equal(recipient.hits("running"), 1);
  assert.deepEqual({ ...(await ledger.observe(id)) }, accepted);
  await next.terminate();
  assert.equal(await next.exited, 0);
});

test("what a worker had taken and not admitted when it was told to end is run by the next one", async () => {
  const held = recipient.proxy.holdReply({ to: contains(" /catalogue HTTP") });
  const preparing = await ledger.enqueue(postNote, { url: recipient.url("a"), reads: recipient.url("catalogue") });
  const queued = await ledger.enqueue(postNote, { url: recipient.url("b") }, { priority: 1 });
  const first = await subject.child({ concurrency: 1 });
  await held.reached;
  await first.terminate();
  held.release();
  assert.equal(await first.exited, 0, first.output());
  assert.equal(
    await subject.value("select count(*) from audit.events where event = 'admitted'"),
    "1",
    "the first test's",
  );
  assert.equal(await subject.value("select count(*) from effects_queue.jobs where locked_at is null"), "2");

  await subject.child();
  for (const id of [preparing, queued]) assert.equal((await subject.ended(id)).state, "accepted");
  assert.deepEqual([recipient.hits("a"), recipient.hits("b")], [1, 1]);
});
