/** A dispatch that ends without an answer after somebody settled its effect: kept, and not the record's last word. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();

test("an answerless end after the outcome is a late report, and no event after it says unresolved", async () => {
  const gate = latch();
  const { operation } = countedOperation("send_late", {
    contract: { dispatchTimeoutMs: 300 },
    dispatch: async () => {
      await gate.opened; // it ignores its signal
      return unknown("the line went dead");
    },
    reconcile: async () => accepted({ receipt: "found" }),
  });
  await subject.work({ operations: [operation] });
  const id = await subject.ledger.enqueue(operation, { to: "somebody" });
  assert.equal((await subject.ended(id)).state, "admitted");
  await subject.ledger.reconcile({ effect: id, deadlineMs: 10_000 });
  await waitFor("it is found", async () => (await subject.ledger.observe(id))?.state === "accepted");
  gate.open();
  await waitFor("the late report is kept", async () => {
    const last = await subject.value<string>(
      "select event from audit.events where effect_id = $1 order by seq desc limit 1",
      [id],
    );
    return last === "late_report";
  });
  assert.equal((await subject.ledger.observe(id))?.state, "accepted");
});
