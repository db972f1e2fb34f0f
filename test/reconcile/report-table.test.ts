/** The rest of the report table (protocol, section 7): reached, ambiguous, later absence, resubmission, other versions. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { z } from "zod";
import {
  absent,
  accepted,
  ambiguous,
  defineOperation,
  type ReconcileReport,
  reached,
  unknown,
} from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;

/** What the recipient says about each target, and how often it was asked to act. */
const answers = new Map<string, ReconcileReport<{ receipt: string }>>();
const hits = new Map<string, number>();
const hit = (target: string) => hits.set(target, (hits.get(target) ?? 0) + 1);
const HARMLESS = {
  scope: "account",
  retentionMs: 600_000,
  mismatch: "refused",
  concurrent: "safe",
  failure: "saved",
} as const;

function recipient(name: string, version = 1, more: object = {}) {
  return defineOperation<{ to: string }, { receipt: string }, { to: string }>({
    name,
    version,
    input: z.strictObject({ to: z.string() }),
    proof: z.strictObject({ receipt: z.string() }),
    prepare: (input) => ({ target: input.to, payload: input, cost: {} }),
    dispatch: ({ target }) => {
      hit(target);
      return unknown("the line went dead");
    },
    reconcile: async ({ target }) => answers.get(target) ?? absent({ found: 0 }),
    ...more,
  });
}
const plain = recipient("delete_object");
const ended = recipient("send_once", 1, { contract: { absence: { conclusiveAfterMs: 0, endedBy: "dispatch" } } });
const later = recipient("send_slowly", 1, {
  contract: { absence: { conclusiveAfterMs: 3_600_000, endedBy: "dispatch" } },
});
const repeatable = recipient("charge_again", 1, {
  contract: { idempotency: HARMLESS },
  resubmit: async ({ target }: { target: string }) => {
    hit(target);
    return target.startsWith("mute") ? unknown("still dead") : accepted({ receipt: `saved ${target}` });
  },
});

before(() => subject.work({ operations: [plain, ended, later, repeatable] }));

async function doubted(operation: typeof plain, to: string) {
  const id = await ledger.enqueue(operation, { to });
  await subject.ended(id);
  return id;
}
async function ask(id: string, more: object = {}) {
  const reconciliation = await ledger.reconcile({ effect: id, deadlineMs: 30_000, ...more });
  await waitFor("it has run", () =>
    subject.value("select ended from audit.reconciliations where reconciliation_id = $1", [reconciliation]),
  );
  return subject.sql<{ kind: string; report: string; recorded: string | null; reason: string | null; later: boolean }>(
    `select kind, report, recorded, reason, conclusive_at > clock_timestamp() as later from audit.inspections
      where reconciliation_id = $1 order by begun_at`,
    [reconciliation],
  );
}
const standing = async (id: string) => {
  const row = await ledger.observe(id);
  return row?.state === "uncertain"
    ? `uncertain, ${row.unresolved ? "open" : (row.resolution?.kind ?? "")}`
    : row?.state;
};

test("the wanted state is there by unknown hand: uncertain, with the resolution `reached` in the same write", async () => {
  answers.set("gone", reached({ status: 404 }));
  const id = await doubted(plain, "gone");
  const [inspection] = await ask(id);
  assert.equal(inspection?.recorded, "reached");
  assert.equal(await standing(id), "uncertain, reached");
});

test("two matches: uncertain, and the evidence is there for a person", async () => {
  answers.set("twice", ambiguous({ matches: ["a", "b"] }));
  const id = await doubted(plain, "twice");
  assert.equal((await ask(id))[0]?.recorded, "uncertain");
  assert.equal(await standing(id), "uncertain, open");
  assert.deepEqual(await subject.value("select body from audit.evidence where effect_id = $1", [id]), {
    matches: ["a", "b"],
  });
});

test("what is uncertain is asked about again on request only, and what that finds is a resolution", async () => {
  const id = await doubted(plain, "slow index");
  await ask(id);
  assert.equal(await standing(id), "uncertain, open");
  await assert.rejects(ledger.reconcile({ effect: id, deadlineMs: 1_000 }), { code: "PE110" });
  assert.equal((await ask(id, { includeUncertain: true }))[0]?.recorded, null);
  answers.set("slow index", accepted({ receipt: "late" }));
  assert.equal((await ask(id, { includeUncertain: true }))[0]?.recorded, "accepted");
  assert.equal(await standing(id), "uncertain, evidence");
});

test("absent after the end of its dispatch, where the contract says so: no_effect", async () => {
  const id = await doubted(ended, "never arrived");
  assert.equal((await ask(id))[0]?.recorded, "no_effect");
  assert.equal(await standing(id), "no_effect");
});

test("absent before the moment: nothing yet, and the inspection names it", async () => {
  const id = await doubted(later, "not yet");
  const [inspection] = await ask(id);
  assert.deepEqual([inspection?.recorded, inspection?.later], [null, true]);
  assert.equal(await standing(id), "admitted");
});

test("a resubmission goes out once more under the same key, where the request allows it", async () => {
  const id = await doubted(repeatable, "answer lost");
  const inspections = await ask(id, { allowResubmit: true });
  assert.deepEqual(
    inspections.map(({ kind, report, recorded }) => [kind, report, recorded]),
    [
      ["lookup", "absent", null],
      ["resubmit", "accepted", "accepted"],
    ],
  );
  assert.equal(hits.get("answer lost"), 2);
  assert.equal(await standing(id), "accepted");
});

test("a resubmission that cannot tell changes nothing; one that is not allowed is not made", async () => {
  const mute = await doubted(repeatable, "mute");
  assert.equal((await ask(mute, { allowResubmit: true })).length, 2);
  assert.equal(await standing(mute), "admitted");
  const kept = await doubted(repeatable, "not allowed");
  assert.equal((await ask(kept)).length, 1);
  assert.equal(hits.get("not allowed"), 1);
});

test("a resubmission wants the authority that an admission wants", async () => {
  await ledger.openTask("given up");
  const id = await ledger.enqueue(repeatable, { to: "given up" }, { task: "given up" });
  await subject.ended(id);
  await ledger.endTask("given up");
  assert.deepEqual(
    (await ask(id, { allowResubmit: true })).map(({ kind }) => kind),
    ["lookup"],
  );
  assert.equal(hits.get("given up"), 1);
});

test("another version looks up what an older one dispatched, if it says so", async () => {
  const first = countedOperation("send_note", { dispatch: () => unknown("the line went dead") });
  const worker = await subject.work({ operations: [first.operation] });
  const ids = [];
  for (const to of ["old a", "old b"]) {
    const id = await ledger.enqueue(first.operation, { to });
    await subject.ended(id);
    ids.push(id);
  }
  await worker.stop();
  answers.set("old b", accepted({ receipt: "found by the new one" }));

  const stranger = await subject.work({ operations: [recipient("send_note", 2)] });
  assert.deepEqual(await ask(ids[0] ?? ""), []);
  await stranger.stop();
  const heir = await subject.work({ operations: [recipient("send_note", 3, { reconciles: [1] })] });
  assert.equal((await ask(ids[1] ?? ""))[0]?.recorded, "accepted");
  await heir.stop();
});
