/** An admission whose COMMIT is lost on the way, and one whose confirmation is (protocol, section 5; case 6). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import postNote from "../fixtures/worker-tasks/post_note.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { ADMISSION_COMMIT, COMMITTED, FATE_QUESTION, startPostgresProxy } from "../harness/postgres-proxy.ts";
import { startRecipient } from "../harness/recipient.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const recipient = await startRecipient(subject);
const { proxy, connectionString } = await startPostgresProxy(subject);

before(async () => {
  await subject.work({ operations: [postNote] }, connectionString);
  await ledger.openTask("notes", { budgets: { usd_cents: 100n } });
});

/** What an effect's record and budget say, in one line. */
async function standing(effectId: string) {
  const [row] = await subject.sql<{ state: string; reserved: string; permits: string }>(
    `select e.state, b.reserved, (select count(*) from effects_ledger.permit p where p.effect_id = e.effect_id) as permits
       from effects_ledger.effect e, effects_ledger.budget b where e.effect_id = $1`,
    [effectId],
  );
  return row;
}

const admissions = (effectId: string) =>
  subject.value<string>("select count(*) from audit.events where effect_id = $1 and event = 'admitted'", [effectId]);

test("an admission whose COMMIT never arrived reserved nothing, and is admitted again", async () => {
  const lost = proxy.cutBeforeRequest({ match: ADMISSION_COMMIT });
  const asked = proxy.holdRequest({ match: FATE_QUESTION });
  const id = await ledger.enqueue(postNote, { url: recipient.url("lost"), cents: 7 }, { task: "notes" });
  await Promise.all([lost.reached, asked.reached]);
  assert.deepEqual(await standing(id), { state: "prepared", reserved: "0", permits: "0" });
  asked.release();
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(recipient.hits("lost"), 1);
  assert.equal(await admissions(id), "1");
});

test("an admission that stands without its confirmation is never sent by its caller, and recorded as no_effect", async () => {
  const unheard = proxy.cutReply({ to: ADMISSION_COMMIT, after: COMMITTED });
  const asked = proxy.holdRequest({ match: FATE_QUESTION });
  const id = await ledger.enqueue(postNote, { url: recipient.url("unheard"), cents: 7 }, { task: "notes" });
  await Promise.all([unheard.reached, asked.reached]);
  assert.deepEqual(await standing(id), { state: "admitted", reserved: "7", permits: "1" });
  asked.release();
  assert.deepEqual(await subject.ended(id), { state: "no_effect", evidence: { code: "admission_unconfirmed" } });
  await subject.idle();
  assert.deepEqual(await standing(id), { state: "no_effect", reserved: "0", permits: "1" });
  assert.equal(recipient.hits("unheard"), 0);
});
