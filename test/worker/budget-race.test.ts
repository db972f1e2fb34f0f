/** Four processes reserve at once on one budget, and never more than it has (protocol, section 5; case 10, scaled). */
import assert from "node:assert/strict";
import { join } from "node:path";
import { before, test } from "node:test";
import { RESERVING, reserveOperation } from "../fixtures/reserve.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startRecipient } from "../harness/recipient.ts";
import { waitFor } from "../harness/wait.ts";

const ROUNDS = 10;
const FOLDERS = join(import.meta.dirname, "..", "fixtures", "reserving");

const subject = await openTestLedger();
const { ledger } = subject;
const recipient = await startRecipient(subject);
const operations = RESERVING.map(reserveOperation);

before(async () => {
  await Promise.all(
    ["1", "2", "3", "4"].map((folder) => subject.child({ tasks: join(FOLDERS, folder), concurrency: 2 })),
  );
});

/** All gates at once: whoever admits or settles waits for them, before its snapshot. */
const GATES = Array.from({ length: 8 }, (_, gate) => `effects_ledger.gate_${gate}`).join(", ");
const WAITING_ADMISSIONS = `select count(distinct pid) from pg_stat_activity where datname = current_database()
    and application_name = 'pg-effects worker' and wait_event_type = 'Lock' and query like 'begin isolation level serializable%'`;

test(`of four processes that reserve 9 each where 25 are left exactly two are granted, in ${ROUNDS} rounds`, async () => {
  const gatekeeper = await subject.connect();
  for (let round = 1; round <= ROUNDS; round++) {
    const task = `round ${round}`;
    const taskId = await ledger.openTask(task, { budgets: { usd_cents: 500n } });
    const used = await ledger.enqueue(
      operations[0] as (typeof operations)[0],
      { url: recipient.url("used"), cents: 475 },
      { task },
    );
    assert.equal((await subject.ended(used)).state, "accepted");

    await gatekeeper.query(`begin; lock table ${GATES} in exclusive mode`);
    const ids = await Promise.all(
      operations.map((operation, place) =>
        ledger.enqueue(operation, { url: recipient.url(`${round}/${place}`), cents: 9 }, { task, onDenial: "decline" }),
      ),
    );
    await waitFor("all four wait at the gate", async () => (await subject.value(WAITING_ADMISSIONS)) === "4");
    await gatekeeper.query("commit");
    const ends = await Promise.all(ids.map((id) => subject.ended(id)));
    assert.deepEqual(ends.map(({ state }) => state).sort(), ["accepted", "accepted", "declined", "declined"]);
    const codes = ends.flatMap((end) => (end.state === "declined" ? [end.code] : []));
    for (const code of codes) assert.match(code, /^budget_(held|exceeded)$/);
    const [sums] = await subject.sql("select reserved, spent, overrun from effects_ledger.budget where task_id = $1", [
      taskId,
    ]);
    assert.deepEqual(sums, { reserved: "0", spent: "493", overrun: "0" });
    for (const [place, end] of ends.entries()) {
      assert.equal(recipient.hits(`${round}/${place}`), end.state === "accepted" ? 1 : 0);
    }
  }
});
