/** A binding that another implementation made is prepared again beside the old one (protocol, section 4). */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { pathToFileURL } from "node:url";
import postNote from "../fixtures/worker-tasks/post_note.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startRecipient } from "../harness/recipient.ts";
import { register } from "../harness/registration.ts";
import { waitFor } from "../harness/wait.ts";
import type { WorkerChild } from "../harness/worker-child.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const recipient = await startRecipient(subject);
const FIXTURE = pathToFileURL(join(import.meta.dirname, "..", "fixtures", "worker-tasks", "post_note.ts"));

/** The same operation as another release of it: only a comment differs. */
async function release(number: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "pg-effects-release-"));
  subject.atEnd(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "post_note.ts"), `/** Release ${number}. */\nexport { default } from "${FIXTURE}";\n`);
  return folder;
}
const releases = await Promise.all([1, 2, 3, 4, 5].map(release));
let newer: WorkerChild;
const pause = () => subject.sql("select effects.pause('operation', 'post_note', 'a test')");
const resume = () => subject.sql("select effects.resume('operation', 'post_note', 'a test')");
const bindings = (id: string) =>
  subject.sql<{ revision: number; implementation: string; digest: string }>(
    "select revision, implementation, encode(digest, 'hex') as digest from effects_payload.binding where effect_id = $1 order by revision",
    [id],
  );
const waitsAt = (id: string, revision: number) =>
  waitFor(`revision ${revision} waits`, () =>
    subject.value("select revision = $2 and denial_code = 'paused' from effects_ledger.effect where effect_id = $1", [
      id,
      revision,
    ]),
  );

/** Has a worker of a release look at an effect at once, and end. */
async function pass(folder: string, id: string, until: () => Promise<unknown>) {
  const worker = await subject.work({ tasks: folder });
  await subject.sql("select effects_ledger.requeue(array[$1::uuid])", [id]);
  await until();
  await worker.stop();
}

before(async () => {
  await register(subject.connectionString, releases[0] as string);
  await pause();
});

test("an effect that waits through a deploy is prepared by the new release, and the old binding keeps its history", async () => {
  const id = await ledger.enqueue(postNote, { url: recipient.url("deployed") });
  const before = await subject.child({ tasks: releases[0] as string });
  await waitsAt(id, 1);
  await before.terminate();
  assert.equal(await before.exited, 0, before.output());
  await resume();
  newer = await subject.child({ tasks: releases[1] as string });
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(recipient.hits("deployed"), 1);
  const [first, second, ...more] = await bindings(id);
  assert.deepEqual([first?.revision, second?.revision, more.length], [1, 2, 0]);
  assert.notEqual(first?.implementation, second?.implementation);
  const permitted = await subject.value(
    "select encode(digest, 'hex') from effects_ledger.permit where effect_id = $1",
    [id],
  );
  assert.equal(permitted, second?.digest);
  const implementation = "select implementation from audit.effects where effect_id = $1";
  assert.equal(await subject.value(implementation, [id]), second?.implementation);
});

test("a binding that changed three times is declined as unstable, and nothing is sent", async () => {
  await newer.terminate();
  await newer.exited;
  await pause();
  const id = await ledger.enqueue(postNote, { url: recipient.url("unstable") });
  for (const [place, folder] of releases.slice(0, 4).entries()) await pass(folder, id, () => waitsAt(id, place + 1));
  await resume();
  await pass(releases[4] as string, id, () => subject.ended(id));
  const standing = await ledger.observe(id);
  assert.ok(standing?.state === "declined");
  assert.deepEqual([standing.reason, standing.code], ["denied", "binding_unstable"]);
  assert.equal((await bindings(id)).length, 4);
  assert.equal(recipient.hits("unstable"), 0);
});
