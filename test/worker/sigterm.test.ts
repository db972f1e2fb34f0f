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
  await subject.child();
  assert.deepEqual(await ledger.observe(id), { state: "admitted", unresolved: false });
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
});

test("what a worker had not admitted when it was told to end is run by the next one", async () => {
  recipient.receiver.answerWith(respondJson(200, { receipt: "r1" }));
  for (const { id } of await subject.sql<{ id: string }>("select worker as id from effects_ledger.worker where stopped_at is null")) {
    assert.ok(id); // the next worker of the test above takes this one's jobs, too, were it not for the order below
  }
});
