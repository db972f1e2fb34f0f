/** A job that is delivered again finds the intent and stops (protocol, section 6; cases 3, 4 and 14). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { respondJson } from "../../src/demo/recipients/webhook-answers.ts";
import postNote from "../fixtures/worker-tasks/post_note.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { ADMISSION_COMMIT, COMMITTED, startPostgresProxy } from "../harness/postgres-proxy.ts";
import { startRecipient } from "../harness/recipient.ts";
import { register } from "../harness/registration.ts";
import { waitFor } from "../harness/wait.ts";
import { WORKER_TASKS } from "../harness/worker-child.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const recipient = await startRecipient(subject);
const { proxy, connectionString } = await startPostgresProxy(subject);

before(() => register(subject.connectionString, WORKER_TASKS));

/** Adds jobs for an effect beside the one that it has: `key` replaces that one where it is not locked. */
const addJobs = (id: string, count: number, key: string | null = null) =>
  subject.sql(
    `select effects_queue.add_job('post_note', json_build_object('effect_id', $1::text), job_key => $2)
       from generate_series(1, $3)`,
    [id, key, count],
  );
const jobs = async () => Number(await subject.value("select count(*) from effects_queue.jobs"));
const admissions = (id: string) =>
  subject.value("select count(*) from audit.events where effect_id = $1 and event = 'admitted'", [id]);

test("a live worker whose jobs are taken from it after the intent sends, and who is given them does not", async () => {
  const first = await subject.child({ connectionString });
  const confirmation = proxy.holdReply({ to: ADMISSION_COMMIT, after: COMMITTED });
  const id = await ledger.enqueue(postNote, { url: recipient.url("unlocked") });
  await confirmation.reached;
  const second = await subject.child();
  const unlock =
    "select effects_queue.force_unlock_workers((select w.pools from effects_ledger.worker w where w.worker = $1))";
  await subject.sql(unlock, [first.id]);
  // The second one takes it, finds the intent, and completes the job.
  await waitFor("the second worker has ended the job", async () => (await jobs()) === 0);
  assert.equal(recipient.hits("unlocked"), 0);
  confirmation.release();
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(recipient.hits("unlocked"), 1);
  assert.equal(recipient.receiver.requests.at(-1)?.headers["worker-pid"], String(first.pid));
  const outcomes = await subject.sql("select by_worker from audit.events where effect_id = $1 and event = 'accepted'", [
    id,
  ]);
  assert.deepEqual(outcomes, [{ by_worker: first.id }]);
  assert.notEqual(first.id, second.id);
});

test("the job of an effect that is being sent, added again and again, leads to no second request", async () => {
  const held = recipient.holdReply("again");
  const id = await ledger.enqueue(postNote, { url: recipient.url("again") });
  await held.reached;
  await addJobs(id, 5);
  await addJobs(id, 1, id);
  await waitFor("the added jobs have run", async () => (await jobs()) === 1);
  held.release();
  assert.equal((await subject.ended(id)).state, "accepted");
  await subject.idle();
  assert.equal(recipient.hits("again"), 1);
});

test("an admission asked for 50 times from four processes is given once, and later ones are told the state", async () => {
  await subject.child();
  await subject.child();
  const client = await subject.connect();
  await client.query("begin");
  const id = await ledger.enqueue(postNote, { url: recipient.url("fifty") }, { client });
  await client.query(
    "select effects_queue.add_job('post_note', json_build_object('effect_id', $1::text)) from generate_series(1, 49)",
    [id],
  );
  await client.query("commit");
  assert.equal((await subject.ended(id)).state, "accepted");
  await subject.idle();
  assert.deepEqual([recipient.hits("fifty"), await admissions(id)], [1, "1"]);
  const workers = await subject.value("select count(*) from effects_ledger.worker where stopped_at is null");
  assert.equal(workers, "4");

  await addJobs(id, 20);
  await subject.idle();
  assert.deepEqual([recipient.hits("fifty"), await admissions(id)], [1, "1"], "after success");
  assert.equal((await subject.ended(id)).state, "accepted");
});

test("after doubt and after expiry an admission is not given either", async () => {
  recipient.receiver.answerWith(respondJson(500, { sorry: true }));
  const doubted = await ledger.enqueue(postNote, { url: recipient.url("doubted") });
  assert.equal((await subject.ended(doubted)).state, "admitted");
  const client = await subject.connect();
  await client.query("begin");
  const options = { client, expiresAt: new Date(Date.now() + 1_500) };
  const expired = await ledger.enqueue(postNote, { url: recipient.url("expired") }, options);
  await waitFor("it has expired", async () => {
    const { rows } = await client.query(
      "select expires_at < clock_timestamp() as past from effects_ledger.request where effect_id = $1",
      [expired],
    );
    return rows[0].past;
  });
  await client.query("commit");
  assert.equal((await subject.ended(expired)).state, "declined");
  for (const id of [doubted, expired]) await addJobs(id, 20);
  await subject.idle();
  assert.deepEqual([recipient.hits("doubted"), await admissions(doubted)], [1, "1"]);
  assert.deepEqual([recipient.hits("expired"), await admissions(expired)], [0, "0"]);
});
