/** What a fence proves, and when it proves nothing (protocol, section 7). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { absent, accepted, type FenceReport, fenced, unknown } from "../../src/index.ts";
import { type Counted, countedOperation, type Receipt } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;

const FENCES: Readonly<Record<string, () => FenceReport<Receipt>>> = {
  "the effect won": () => accepted({ receipt: "r1" }),
  "cannot tell": () => unknown("the recipient is read-only"),
  throws: () => {
    throw new Error("503");
  },
};

/** An operation whose fence stands so long; `ends` says whether its dispatch ever does. */
function fencing(name: string, retentionMs: number | "kept", ends: boolean, looksUp = true): Counted {
  return countedOperation(name, {
    contract: { dispatchTimeoutMs: 800, absence: { fence: { retentionMs } } },
    dispatch: () => (ends ? unknown("the line went dead") : new Promise(() => {})),
    ...(looksUp && { reconcile: async () => absent(null) }),
    fence: async ({ target }) => FENCES[target]?.() ?? fenced({ mark: "void" }),
  });
}
const kept = fencing("kept", "kept", true);
const keptAndRunning = fencing("kept_running", "kept", false);
const finite = fencing("finite", 3_600_000, true);
const finiteAndRunning = fencing("finite_running", 3_600_000, false);
const over = fencing("over", 1, true);
const fenceOnly = fencing("fence_only", "kept", true, false);
const all = [kept, keptAndRunning, finite, finiteAndRunning, over, fenceOnly];

before(() => subject.work({ operations: all.map(({ operation }) => operation) }));

/** An unresolved effect, asked about once with leave to fence: its state, and its inspections. */
async function fence({ operation, hits }: Counted, to = "somebody") {
  const id = await ledger.enqueue(operation, { to });
  await subject.ended(id);
  await subject.idle(); // a dispatch that ignores its signal has its word first
  const reconciliation = await ledger.reconcile({ effect: id, deadlineMs: 60_000, allowFence: true });
  const ended = "select ended from audit.reconciliations where reconciliation_id = $1";
  assert.equal(await waitFor("the reconciliation ends", () => subject.value(ended, [reconciliation])), "finished");
  const inspections = await subject.sql<{ step: string }>(
    "select concat_ws(' ', kind, report, recorded) as step from audit.inspections where effect_id = $1 order by begun_at",
    [id],
  );
  assert.equal(hits(to), 1);
  return [(await ledger.observe(id))?.state, ...inspections.map(({ step }) => step)].join(", ");
}

test("a mark that is kept proves no_effect, also while the dispatch has not ended", async () => {
  assert.equal(await fence(kept), "no_effect, lookup absent, fence fenced no_effect");
  assert.equal(await fence(keptAndRunning), "no_effect, lookup absent, fence fenced no_effect");
});

test("a mark that stands for a while proves it within that while and after the dispatch has ended", async () => {
  assert.equal(await fence(finite), "no_effect, lookup absent, fence fenced no_effect");
  assert.equal(await fence(finiteAndRunning), "admitted, lookup absent, fence fenced");
  assert.equal(await fence(over), "admitted, lookup absent, fence fenced");
});

test("an operation that has only a fence is fenced without a lookup", async () => {
  assert.equal(await fence(fenceOnly), "no_effect, fence fenced no_effect");
});

test("a fence that the effect has won brings its proof", async () => {
  assert.equal(await fence(kept, "the effect won"), "accepted, lookup absent, fence accepted accepted");
});

test("a fence that cannot tell or could not ask records nothing", async () => {
  assert.equal(await fence(kept, "cannot tell"), "admitted, lookup absent, fence unknown");
  assert.equal(await fence(kept, "throws"), "admitted, lookup absent, fence could_not_ask");
});
