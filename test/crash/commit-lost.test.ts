/**
 * COMMIT dropped on its way, and COMMIT whose reply is dropped, for admissions and reports, one and several at once
 * (protocol, sections 5 and 13; case 6). Who was not told does not act on it, and asks the record.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import {
  ADMISSION_COMMIT,
  COMMITTED,
  FATE_QUESTION,
  OUTCOME_COMMIT,
  startPostgresProxy,
} from "../harness/postgres-proxy.ts";
import { together } from "../harness/together.ts";
import { type Latch, latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { proxy, connectionString } = await startPostgresProxy(subject);
const answers = new Map<string, Latch>();
const counted = countedOperation("send_note", {
  dispatch: async ({ target }) => {
    await answers.get(target.replace(/\/\d$/, ""))?.opened;
    return accepted({ receipt: target }, { cost: { usd_cents: 3n } });
  },
});
const { ask, hits, states, histories, sums, transactions } = together(subject, counted);

before(() => subject.work({ operations: [counted.operation] }, connectionString));

for (const count of [1, 5]) {
  test(`an admission of ${count} whose COMMIT never arrived reserved nothing, and each is admitted again`, async () => {
    const task = `admission of ${count} lost`;
    const lost = proxy.cutBeforeRequest({ match: ADMISSION_COMMIT });
    const asked = proxy.holdRequest({ match: FATE_QUESTION });
    const ids = await ask(task, count);
    await Promise.all([lost.reached, asked.reached]);
    assert.deepEqual([await states(ids), await sums(task)], ["prepared", "0 0 0"]);
    asked.release();
    for (const id of ids) assert.equal((await subject.ended(id)).state, "accepted");
    assert.equal(await transactions("permit", ids), 1);
    assert.deepEqual(await histories(ids), ["admitted accepted"]);
    assert.deepEqual([await sums(task), hits(task)], [`0 ${3 * count} 0`, count]);
  });

  test(`an admission of ${count} that stands unheard is never sent, and each is recorded as no_effect`, async () => {
    const task = `admission of ${count} unheard`;
    const unheard = proxy.cutReply({ to: ADMISSION_COMMIT, after: COMMITTED });
    const asked = proxy.holdRequest({ match: FATE_QUESTION });
    const ids = await ask(task, count);
    await Promise.all([unheard.reached, asked.reached]);
    assert.deepEqual([await states(ids), await sums(task)], ["admitted", `${7 * count} 0 0`]);
    assert.equal(await transactions("permit", ids), 1);
    asked.release();
    for (const id of ids) {
      assert.deepEqual(await subject.ended(id), { state: "no_effect", evidence: { code: "admission_unconfirmed" } });
    }
    await subject.idle();
    assert.deepEqual(await histories(ids), ["admitted no_effect"]);
    assert.deepEqual([await sums(task), hits(task)], ["0 0 0", 0]);
  });

  for (const [what, fault] of [
    ["never arrived", () => proxy.cutBeforeRequest({ match: OUTCOME_COMMIT })],
    ["stands unheard", () => proxy.cutReply({ to: OUTCOME_COMMIT, after: COMMITTED })],
  ] as const) {
    test(`a report of ${count} whose COMMIT ${what} is recorded again, and stands once`, async () => {
      const task = `report of ${count} that ${what}`;
      const answer = latch();
      answers.set(task, answer);
      const ids = await ask(task, count);
      await waitFor("all have arrived", () => hits(task) === count);
      const cut = fault();
      answer.open();
      await cut.reached;
      for (const id of ids) assert.equal((await subject.ended(id)).state, "accepted");
      await subject.idle();
      assert.deepEqual(await histories(ids), ["admitted accepted"]);
      assert.deepEqual([await sums(task), hits(task)], [`0 ${3 * count} 0`, count]);
    });
  }
}

test("where the question what became of it is lost as well, and the record that nothing was sent, both are made again", async () => {
  const task = "lost twice";
  const unheard = proxy.cutReply({ to: ADMISSION_COMMIT, after: COMMITTED });
  const unasked = proxy.cutBeforeRequest({ match: FATE_QUESTION });
  const unrecorded = proxy.cutBeforeRequest({ match: OUTCOME_COMMIT });
  const ids = await ask(task, 3);
  await Promise.all([unheard.reached, unasked.reached, unrecorded.reached]);
  for (const id of ids) {
    assert.deepEqual(await subject.ended(id), { state: "no_effect", evidence: { code: "admission_unconfirmed" } });
  }
  await subject.idle();
  assert.deepEqual(await histories(ids), ["admitted no_effect"]);
  assert.deepEqual([await sums(task), hits(task)], ["0 0 0", 0]);
});
