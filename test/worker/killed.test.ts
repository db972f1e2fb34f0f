/**
 * SIGKILL before the intent, after it, and after the recipient accepted (protocol, section 13; case 5). What was not
 * admitted runs later, on a worker that notices the silence; what was admitted is never sent again.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import postNote from "../fixtures/worker-tasks/post_note.ts";
import postNoteSoon from "../fixtures/worker-tasks/post_note_soon.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { ADMISSION_COMMIT, COMMITTED, startPostgresProxy } from "../harness/postgres-proxy.ts";
import { startRecipient } from "../harness/recipient.ts";
import { register } from "../harness/registration.ts";
import { waitFor } from "../harness/wait.ts";
import { WORKER_TASKS } from "../harness/worker-child.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const recipient = await startRecipient(subject);
const postgres = await startPostgresProxy(subject);

/** From the last heartbeat to freed jobs: 15 s of silence, noticed at most 4 s later; the rest is a loaded machine. */
const FREED_MS = 40_000;

const kill = async (worker: Awaited<ReturnType<typeof subject.child>>) => {
  worker.signal("SIGKILL");
  assert.equal(await worker.exited, "SIGKILL");
};
const events = async (id: string) =>
  (await subject.sql<{ event: string }>("select event from audit.events where effect_id = $1 order by seq", [id]))
    .map(({ event }) => event)
    .join(" ");

test("of three workers killed at three places, the effects run at most once, and only the one without intent runs later", async () => {
  await register(subject.connectionString, WORKER_TASKS);

  // Before the intent: the handler waits in `prepare`. A second job is only locked, in the worker's own queue.
  const inPrepare = recipient.proxy.holdReply({ to: contains(" /catalogue HTTP") });
  const before = await ledger.enqueue(postNote, { url: recipient.url("before"), reads: recipient.url("catalogue") });
  const behind = await ledger.enqueue(postNote, { url: recipient.url("behind") }, { priority: 1 });
  const first = await subject.child({ concurrency: 1 });
  await inPrepare.reached;
  await kill(first);
  inPrepare.release();

  // After the intent, before the send: the confirmation of COMMIT is on its way.
  const confirmation = postgres.proxy.holdReply({ to: ADMISSION_COMMIT, after: COMMITTED });
  const second = await subject.child({ connectionString: postgres.connectionString });
  const after = await ledger.enqueue(postNoteSoon, { url: recipient.url("after") });
  await confirmation.reached;
  await kill(second);
  confirmation.release();

  // After the recipient accepted: its answer is on its way.
  const third = await subject.child();
  const answer = recipient.holdReply("accepted");
  const accepted = await ledger.enqueue(postNoteSoon, { url: recipient.url("accepted") });
  await answer.reached;
  await kill(third);
  answer.release();
  assert.deepEqual([recipient.hits("before"), recipient.hits("after"), recipient.hits("accepted")], [0, 0, 1]);

  const survivor = await subject.child();
  for (const id of [after, accepted]) {
    const standing = await subject.ended(id);
    assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
  }
  for (const id of [before, behind]) assert.equal((await subject.ended(id, FREED_MS)).state, "accepted");
  // The jobs of what was admitted are freed and taken again, too; they find the intent and end.
  await waitFor(
    "no job is left",
    async () => (await subject.value("select count(*) from effects_queue.jobs")) === "0",
    {
      timeoutMs: FREED_MS,
    },
  );
  const hits = ["before", "behind", "after", "accepted"].map((path) => recipient.hits(path));
  assert.deepEqual(hits, [1, 1, 0, 1]);
  assert.equal(await events(before), "requested prepared admitted accepted");
  assert.equal(await events(after), "requested prepared admitted overdue");
  assert.equal(await events(accepted), "requested prepared admitted overdue");
  const freed = await subject.sql<{ worker: string }>(
    "select worker from effects_ledger.worker where freed_at is not null",
  );
  assert.deepEqual(freed.map(({ worker }) => worker).sort(), [first.id, second.id, third.id].sort());

  const [beats] = await subject.sql<{ beats: boolean }>(
    "select heartbeat_at > started_at and freed_at is null as beats from effects_ledger.worker where worker = $1",
    [survivor.id],
  );
  assert.deepEqual(beats, { beats: true });
});
