/** A worker stopped between COMMIT and the send that goes on after its window sends nothing (protocol, section 6; case 33). */
import assert from "node:assert/strict";
import { test } from "node:test";
import postNote from "../fixtures/worker-tasks/post_note.ts";
import postNoteSoon from "../fixtures/worker-tasks/post_note_soon.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { ADMISSION_COMMIT, COMMITTED, startPostgresProxy } from "../harness/postgres-proxy.ts";
import { startRecipient } from "../harness/recipient.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const recipient = await startRecipient(subject);
const { proxy, connectionString } = await startPostgresProxy(subject);

const windowPassed = (id: string) =>
  waitFor("the window has passed", () =>
    subject.value("select dispatch_deadline < clock_timestamp() from effects_ledger.effect where effect_id = $1", [id]),
  );
const noEffect = (id: string) =>
  waitFor("no_effect is recorded", async () => {
    const standing = await ledger.observe(id);
    return standing?.state === "no_effect" && standing;
  });

test("a confirmation of COMMIT that comes after the window leads to no_effect, late, and to no request", async () => {
  const worker = await subject.child({ connectionString });
  const held = proxy.holdReply({ to: ADMISSION_COMMIT, after: COMMITTED });
  await ledger.openTask("notes", { budgets: { usd_cents: 100n } });
  const id = await ledger.enqueue(postNoteSoon, { url: recipient.url("held"), cents: 5 }, { task: "notes" });
  await held.reached;
  await windowPassed(id);
  held.release();
  assert.deepEqual((await noEffect(id)).evidence, { code: "late" });
  assert.equal(recipient.hits("held"), 0);
  assert.equal(await subject.value("select reserved + spent + overrun from effects_ledger.budget"), "0");

  // The process is not spoilt: what is asked for next is sent.
  const next = await ledger.enqueue(postNote, { url: recipient.url("next") });
  assert.equal((await subject.ended(next)).state, "accepted");
  await worker.terminate();
  assert.equal(await worker.exited, 0);
});

test("a process frozen between COMMIT and the send, and thawed after its window, reports late and sends nothing", async () => {
  const frozen = await subject.child({ connectionString });
  const held = proxy.holdReply({ to: ADMISSION_COMMIT, after: COMMITTED });
  const id = await ledger.enqueue(postNoteSoon, { url: recipient.url("frozen") });
  await held.reached;
  frozen.signal("SIGSTOP");
  held.release();
  await windowPassed(id);
  assert.equal(recipient.hits("frozen"), 0);
  frozen.signal("SIGCONT");
  assert.deepEqual((await noEffect(id)).evidence, { code: "late" });
  assert.equal(recipient.hits("frozen"), 0);
});
