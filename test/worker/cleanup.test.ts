/**
 * Cleanup: owed from the admission on, done once the effect is settled, tried again while it fails, and open where it is not
 * done; it changes no outcome (protocol, sections 6 and 13).
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { absent, accepted, type Cleaned, cleaned, failed, notSent, unknown } from "../../src/index.ts";
import { type Behaviour, countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { type Latch, latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const gates = new Map<string, Latch>();
const contract = {
  cleanup: "required",
  dispatchTimeoutMs: 5_000,
  reconcileTimeoutMs: 400,
  failures: { full: { effect: "none" } },
} as const;
const behaviour: Behaviour = {
  contract,
  dispatch: async ({ target }) => {
    await gates.get(target)?.opened;
    switch (target.split(" ")[0]) {
      case "failed":
        return failed({ code: "full" });
      case "no_effect":
        return notSent({ code: "refused_connection" });
      case "lost":
        return unknown("the line went dead");
      default:
        return accepted({ receipt: target });
    }
  },
  reconcile: async ({ target }) => (target.startsWith("lost found") ? accepted({ receipt: target }) : absent({})),
  cleanup: ({ target, key }, { signal }) => {
    const tries = send.cleaned(target);
    if (target.includes("throws") && tries === 1) throw new Error("the staging area is away");
    if (target.includes("hangs") && tries === 1) {
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    }
    if (target.includes("says nothing") && tries === 1) return undefined as unknown as Cleaned;
    if (target.includes("away")) throw new Error("the staging area is away");
    return cleaned({ removed: key });
  },
};
const send = countedOperation("send_staged", behaviour);
const { operation } = send;

before(async () => {
  await subject.work({ operations: [operation] });
});

interface Obligation {
  readonly due_at: Date | null;
  readonly closed_at: Date | null;
  readonly given_up_at: Date | null;
  readonly tries: number;
  readonly last_fault: string | null;
}
async function obligation(id: string): Promise<Obligation | undefined> {
  const [row] = await subject.sql<Obligation>("select * from audit.obligations where effect_id = $1", [id]);
  return row;
}
const done = (id: string) => waitFor("its cleanup is done", async () => (await obligation(id))?.closed_at);
const events = (id: string) =>
  subject.value<string>(
    "select string_agg(event, ' ' order by seq) from audit.events where effect_id = $1 and event ~ 'clean'",
    [id],
  );
/** Asks about one, and waits until that has run. */
async function asked(id: string, options: object = {}) {
  const reconciliation = await ledger.reconcile({ effect: id, deadlineMs: 20_000, ...options });
  await waitFor("it has run", () =>
    subject.value("select ended from audit.reconciliations where reconciliation_id = $1", [reconciliation]),
  );
}
/** Lets the next try of a cleanup begin now, and not after its pause. */
const hurry = (id: string) =>
  subject.sql("update effects_queue._private_jobs set run_at = now() where key = 'cleanup:' || $1", [id]);

for (const state of ["accepted", "failed", "no_effect"]) {
  test(`${state}: what it left is cleaned up once, with evidence, and the outcome stays as it is`, async () => {
    const id = await ledger.enqueue(operation, { to: state });
    await done(id);
    assert.equal((await subject.ended(id)).state, state);
    assert.equal(send.cleaned(state), 1);
    assert.equal(await events(id), "cleaned");
    const [row] = await subject.sql(
      `select v.source, v.says, v.body ->> 'removed' = e.key as own, v.digest = o.evidence_digest as shown, e.contradicted
         from audit.evidence v join audit.effects e using (effect_id) join audit.obligations o using (effect_id)
        where v.effect_id = $1 and v.source = 'cleanup'`,
      [id],
    );
    assert.deepEqual(row, { source: "cleanup", says: "cleaned", own: true, shown: true, contradicted: false });
  });
}

test("the obligation opens with the admission, and waits while nobody knows what happened", async () => {
  const to = "lost and in doubt";
  gates.set(to, latch());
  const id = await ledger.enqueue(operation, { to });
  await waitFor("it is sent", () => send.hits(to) === 1);
  const open = await obligation(id);
  assert.ok(open && open.due_at === null && open.closed_at === null);
  gates.get(to)?.open();
  await subject.ended(id);
  await asked(id);
  assert.equal((await ledger.observe(id))?.state, "uncertain");
  await subject.idle();
  assert.equal(send.cleaned(to), 0);
  assert.equal(
    await subject.value("select count(*) from effects_ledger.open_obligations where effect_id = $1", [id]),
    "1",
  );
  await subject.sql("select effects.accept_risk($1, 'too old to ask')", [id]);
  await done(id);
  assert.equal(send.cleaned(to), 1);
  assert.equal((await ledger.observe(id))?.state, "uncertain");
});

test("what a reconciliation settles is cleaned up then", async () => {
  const id = await ledger.enqueue(operation, { to: "lost found" });
  await subject.ended(id);
  assert.equal(send.cleaned("lost found"), 0);
  await asked(id);
  await done(id);
  assert.equal((await ledger.observe(id))?.state, "accepted");
});

test("what was never admitted owes nothing", async () => {
  await ledger.pause({ operation: "send_staged", reason: "it is to wait" });
  const id = await ledger.enqueue(operation, { to: "never" });
  assert.equal(await ledger.cancel(id), "declined");
  await ledger.resume({ operation: "send_staged", reason: "it waited" });
  assert.equal(await obligation(id), undefined);
});

for (const [how, fault] of [
  ["throws", /^Error: the staging area is away$/],
  ["hangs", /^no answer within 400 ms/],
  ["says nothing", /^the adapter gave no report that it is done$/],
] as const) {
  test(`a cleanup that ${how} is tried again later, and its obligation stays open until then`, async () => {
    const to = `accepted ${how}`;
    const id = await ledger.enqueue(operation, { to });
    const owed = await waitFor("the first try is over", async () => {
      const now = await obligation(id);
      return now?.last_fault ? now : null;
    });
    assert.match(owed.last_fault ?? "", fault);
    assert.deepEqual([owed.closed_at, owed.tries], [null, 1]);
    const pause = await subject.value<number>(
      `select extract(epoch from j.run_at - o.tried_at)::float8 from effects_queue._private_jobs j, effects_ledger.obligation o
        where j.key = 'cleanup:' || $1 and o.effect_id = $1::uuid`,
      [id],
    );
    assert.ok(pause >= 2 && pause < 6, `again after ${pause} s`);
    await hurry(id);
    await done(id);
    assert.deepEqual([send.cleaned(to), send.hits(to), await events(id)], [2, 1, "cleanup_failed cleaned"]);
  });
}

test("after three days nobody tries any more: it stays open, is shown, and somebody may have it tried again", async () => {
  const id = await ledger.enqueue(operation, { to: "accepted away" });
  await waitFor("the first try is over", async () => (await obligation(id))?.last_fault);
  // Only the first and the last of many failures are events.
  await hurry(id);
  await waitFor("the second try is over", async () => (await obligation(id))?.tries === 2 && !(await busy(id)));
  await subject.sql(
    "update effects_ledger.obligation set tried_from = tried_from - interval '3 days' where effect_id = $1",
    [id],
  );
  await hurry(id);
  await waitFor("nobody tries any more", async () => (await obligation(id))?.given_up_at);
  assert.equal(await events(id), "cleanup_failed cleanup_given_up");
  await subject.idle();
  assert.equal(await subject.value("select effects_ledger.queue_cleanups()"), 0);
  await subject.sql("select effects.retry_cleanup($1, 'it is back')", [id]);
  await waitFor("it is tried again", async () => (await obligation(id))?.tries === 4);
  assert.match(await events(id), /cleanup_retried/);
  await assert.rejects(subject.sql("select effects.retry_cleanup($1, 'again')", [await doneOne()]), { code: "PE127" });
});

const busy = (id: string) =>
  subject.value<boolean>("select busy_until is not null from effects_ledger.obligation where effect_id = $1", [id]);
async function doneOne(): Promise<string> {
  const id = await ledger.enqueue(operation, { to: "accepted and done" });
  await done(id);
  return id;
}

test("a job that comes again, or too early, cleans up nothing", async () => {
  const to = "accepted with two jobs";
  gates.set(to, latch());
  const id = await ledger.enqueue(operation, { to });
  await waitFor("it is sent", () => send.hits(to) === 1);
  const addJob = async () => {
    const payload = JSON.stringify({ effect_id: id });
    await subject.sql("select effects_queue.add_job('cleanup:send_staged', $1::json)", [payload]);
    await waitFor("the job is gone", async () => {
      const jobs =
        "select count(*) from effects_queue._private_jobs where payload ->> 'effect_id' = $1 and key is null";
      return (await subject.value(jobs, [id])) === "0";
    });
  };
  await addJob();
  assert.equal(send.cleaned(to), 0);
  gates.get(to)?.open();
  await done(id);
  await addJob();
  assert.equal(send.cleaned(to), 1);
});

test("a crash between outcome and cleanup leaves the obligation, and another worker does it", async () => {
  const child = countedOperation("send_orphaned", { ...behaviour, cleanup: () => cleaned({ removed: true }) });
  const first = await subject.work({
    operations: [countedOperation("send_orphaned", { ...behaviour, cleanup: () => new Promise(() => {}) }).operation],
  });
  const id = await ledger.enqueue(child.operation, { to: "accepted" });
  await waitFor("a cleanup is begun", async () => (await obligation(id))?.tries === 1);
  await first.stop();
  // As after a crash: nobody has the job, and the try that was begun will say nothing.
  await subject.sql("delete from effects_queue._private_jobs where key = 'cleanup:' || $1", [id]);
  await subject.sql("update effects_ledger.obligation set busy_until = now() where effect_id = $1", [id]);
  await subject.work({ operations: [child.operation] }); // it looks for what is due when it starts
  await done(id);
  assert.equal((await ledger.observe(id))?.state, "accepted");
});

test("the database keeps an obligation: closed once, never deleted", async () => {
  const id = await doneOne();
  for (const [statement, code] of [
    ["update effects_ledger.obligation set closed_at = null, evidence_id = null where effect_id = $1", "42501"],
    ["delete from effects_ledger.obligation where effect_id = $1", "42501"],
  ] as const) {
    await assert.rejects(subject.sql(statement, [id]), { code });
  }
});
