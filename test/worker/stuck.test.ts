/** An adapter that never answers is ended by its own deadline and holds up nobody (protocol, section 6; case 5). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { register } from "../harness/registration.ts";
import { latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;

/** Targets that have not been answered yet, so that the tests can answer them late. */
const answers = new Map<string, ReturnType<typeof Promise.withResolvers<void>>>();
const unanswered = (target: string) => {
  const answer = Promise.withResolvers<void>();
  answers.set(target, answer);
  return answer.promise;
};
const prepared = latch();
let preparations = 0;

const { operation, hits } = countedOperation("send_note", {
  contract: { dispatchTimeoutMs: 1_000 },
  prepare: async ({ to }) => {
    if (to !== "stuck in prepare") return;
    preparations += 1;
    if (preparations === 1) await new Promise(() => {}); // never
    prepared.open();
  },
  dispatch: async ({ target }, { signal }) => {
    if (target === "never") await new Promise(() => {});
    if (target === "at its signal") {
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      return unknown("the signal ended it");
    }
    if (target.startsWith("late")) await unanswered(target);
    return accepted({ receipt: target });
  },
  reconcile: async () => ({ report: "absent", evidence: null }),
});

// One at a time: a neighbour of something that holds its place would wait for ever.
before(() => subject.work({ operations: [operation], concurrency: 1 }));

async function unresolved(id: string) {
  const standing = await subject.ended(id);
  assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
}
const record = async (id: string) => {
  const rows = await subject.sql<{ event: string; detail: { reason?: string }; ended: boolean }>(
    `select v.event, v.detail, e.dispatch_ended_at is not null as ended from audit.events v
       join effects_ledger.effect e using (effect_id) where v.effect_id = $1 order by v.seq`,
    [id],
  );
  return {
    events: rows.map(({ event }) => event).join(" "),
    ended: rows.at(-1)?.ended,
    reasons: rows.map(({ detail }) => detail.reason),
  };
};

test("a dispatch that ignores its signal is unresolved at its deadline, has not ended, and its neighbour is sent", async () => {
  const id = await ledger.enqueue(operation, { to: "never" });
  const neighbour = await ledger.enqueue(operation, { to: "neighbour" });
  await unresolved(id);
  assert.equal((await subject.ended(neighbour)).state, "accepted");
  await subject.idle();
  const { ended, reasons } = await waitFor("its own word", async () => {
    const recorded = await record(id);
    return recorded.reasons.some((reason) => reason?.includes("ignored its signal")) && recorded;
  });
  assert.equal(ended, false);
  assert.ok(reasons.length > 0);
  assert.equal(hits("never"), 1);
});

test("a dispatch that ends at its signal has ended, and is unresolved", async () => {
  const id = await ledger.enqueue(operation, { to: "at its signal" });
  await unresolved(id);
  await subject.idle();
  assert.equal((await record(id)).ended, true);
});

test("what a dispatch says after its deadline is its outcome, if nobody recorded one before", async () => {
  const id = await ledger.enqueue(operation, { to: "late" });
  await unresolved(id);
  await subject.idle();
  answers.get("late")?.resolve();
  const standing = await waitFor("the late report", async () => {
    const seen = await ledger.observe(id);
    return seen?.state === "accepted" && seen;
  });
  assert.deepEqual({ ...standing }, { state: "accepted", proof: { receipt: "late" }, via: "dispatch", cost: {} });
  assert.equal((await record(id)).ended, true);
  assert.equal(hits("late"), 1);
});

test("what a dispatch says after an uncertain outcome resolves it, and rewrites nothing", async () => {
  const id = await ledger.enqueue(operation, { to: "late, resolved" });
  await unresolved(id);
  await subject.idle();
  await ledger.reconcile({ effect: id, deadlineMs: 10_000 });
  await waitFor("it is uncertain", async () => (await ledger.observe(id))?.state === "uncertain");
  answers.get("late, resolved")?.resolve();
  const standing = await waitFor("the resolution", async () => {
    const seen = await ledger.observe(id);
    return seen?.state === "uncertain" && seen.resolution && seen;
  });
  assert.deepEqual([standing.unresolved, standing.resolution?.kind], [false, "evidence"]);
  assert.equal(await subject.value("select outcome from audit.effects where effect_id = $1", [id]), "uncertain");
  const body = await subject.value("select body from audit.evidence where effect_id = $1 and says = 'accepted'", [id]);
  assert.deepEqual(body, { receipt: "late, resolved" });
});

test("a preparation that never answers is ended by its deadline, holds up nobody, and is tried again", async () => {
  const id = await ledger.enqueue(operation, { to: "stuck in prepare" });
  const neighbour = await ledger.enqueue(operation, { to: "neighbour 2" });
  assert.equal((await subject.ended(neighbour)).state, "accepted");
  const standing = await ledger.observe(id);
  assert.ok(standing?.state === "requested" || standing?.state === "prepared" || standing?.state === "accepted");
  await prepared.opened;
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal((await record(id)).events, "requested denied prepared admitted accepted");
  assert.equal(hits("stuck in prepare"), 1);
});

test("a worker that is full keeps no jobs from one that is free", async () => {
  // Its dispatches wait far longer than this test: only the other worker can have sent the rest.
  const patient = countedOperation("send_patient", {
    contract: { dispatchTimeoutMs: 600_000 },
    dispatch: async ({ target }) => {
      if (target === "waits") await unanswered(target);
      return accepted({ receipt: target });
    },
  });
  await register(subject.connectionString, [patient.operation]);
  const waits = await ledger.enqueue(patient.operation, { to: "waits" }, { priority: -1 });
  const others = await Promise.all(["1", "2", "3", "4", "5"].map((to) => ledger.enqueue(patient.operation, { to })));
  await subject.work({ operations: [patient.operation], concurrency: 1 });
  await waitFor("the first worker is full", () => patient.hits("waits"));
  await subject.work({ operations: [patient.operation], concurrency: 1 });
  for (const id of others) assert.equal((await subject.ended(id)).state, "accepted");
  answers.get("waits")?.resolve();
  assert.equal((await subject.ended(waits)).state, "accepted");
});
