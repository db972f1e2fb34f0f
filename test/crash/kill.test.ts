/**
 * Workers killed in the middle of their work, again and again: whatever the moment, a recipient never gets the same
 * effect twice, and what nobody can know is unresolved.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import postNote from "../fixtures/worker-tasks/post_note.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startRecipient } from "../harness/recipient.ts";
import { waitFor } from "../harness/wait.ts";

const EFFECTS = 400;

/** A worker is killed when so many more requests have arrived: early, in the thick of it, and late in a batch. */
const KILLED_AFTER = [1, 30, 8];

const ledger = await openTestLedger();
const recipient = await startRecipient(ledger);

test("a worker killed at any moment costs doubt, never a second request", { timeout: 120_000 }, async () => {
  // A worker registers the operation, so that there is something to request.
  const first = await ledger.child({ concurrency: 4 });
  const paths = Array.from({ length: EFFECTS }, (_, n) => `note-${n}`);
  for (const path of paths) await ledger.ledger.enqueue(postNote, { url: recipient.url(path) }, { name: path });

  let worker = first;
  for (const more of KILLED_AFTER) {
    const enough = recipient.receiver.hits + more;
    await waitFor(`${enough} requests arrived`, () => recipient.receiver.hits >= enough);
    worker.signal("SIGKILL");
    await worker.exited;
    worker = await ledger.child({ concurrency: 4 });
  }
  await waitFor(
    "nothing waits any more",
    async () =>
      (await ledger.value<string>("select count(*) from audit.effects where state in ('requested', 'prepared')")) ===
      "0",
    { timeoutMs: 60_000 },
  );
  worker.signal("SIGTERM");
  assert.equal(await worker.exited, 0);

  const states = new Map(
    (await ledger.sql<{ name: string; state: string }>("select name, state from audit.effects")).map((row) => [
      row.name,
      row.state,
    ]),
  );
  for (const path of paths) {
    const hits = recipient.hits(path);
    assert.ok(hits <= 1, `${path} arrived ${hits} times`);
    if (states.get(path) === "accepted") assert.equal(hits, 1, `${path} is accepted and never arrived`);
    else assert.equal(states.get(path), "admitted", `${path} is ${states.get(path)}`);
  }
  const doubted = [...states.values()].filter((state) => state === "admitted").length;
  assert.ok(doubted < EFFECTS, "nothing was accepted");
});
