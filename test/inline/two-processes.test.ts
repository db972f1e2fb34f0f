/**
 * Two processes and one effect (protocol, section 8; ADR 0200: "two processes that append to it concurrently are fenced by
 * whatever lease already fences the run"). Without a lease nobody asks too early; with one, whoever has it asks.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { EffectUnresolvedError } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startRecipient } from "../harness/recipient.ts";
import { waitFor } from "../harness/wait.ts";
import { calls, INTENT, lost, openHost, unresolved } from "./calls.ts";
import { type Ended, startHostChild } from "./host-child.ts";

const subject = await openTestLedger();
const { effect, events } = openHost(subject);
const recipient = await startRecipient(subject);
const [one, other] = await Promise.all([startHostChild(subject), startHostChild(subject)]);

const stillRunning = (error: unknown) => error instanceof EffectUnresolvedError && error.code === "still_running";
const words = (ended: Ended) => ("end" in ended ? ended.end.outcome : ended.code);

/** A moment that has come by the database's clock. */
const passed = (name: string) =>
  waitFor("its window has passed", () =>
    subject.value("select dispatch_deadline <= clock_timestamp() from audit.effects where name = $1", [name]),
  );

test("of two processes that call at once one runs, and the other is told that it may still run", async () => {
  const answer = recipient.holdReply("at-once");
  const told = { name: "at-once", runs: recipient.url("at-once"), asks: recipient.url("at-once-asked") };
  const ends = [one.effect(told), other.effect(told)];
  await answer.reached;
  assert.equal(words(await Promise.race(ends)), "still_running");
  answer.release();
  assert.deepEqual((await Promise.all(ends)).map(words).sort(), ["accepted", "still_running"]);
  assert.deepEqual([recipient.hits("at-once"), recipient.hits("at-once-asked")], [1, 0]);
  assert.deepEqual((await Promise.all([one.effect(told), other.effect(told)])).map(words), ["accepted", "accepted"]);
  assert.equal(recipient.hits("at-once"), 1);
});

test("with leases of their own, whoever comes second asks, and never runs; the first outcome recorded wins", async () => {
  const answer = recipient.holdReply("leased");
  const told = {
    name: "leased",
    runs: recipient.url("leased"),
    asks: recipient.url("leased-asked"),
    runTimeoutMs: 0,
  };
  const first = one.effect(told);
  await answer.reached;
  const found = { end: { outcome: "accepted", proof: { receipt: "r1" }, via: "reconcile" } };
  assert.deepEqual(await other.effect(told), found);
  answer.release();
  assert.deepEqual(await first, found);
  assert.deepEqual([recipient.hits("leased"), recipient.hits("leased-asked")], [1, 1]);
});

test("many effects at once from two processes: each runs once", async () => {
  const names = Array.from({ length: 30 }, (_, place) => `many-${place}`);
  const tell = (name: string) => ({ name, runs: recipient.url(name) });
  const ends = await Promise.all(
    names.flatMap((name, place) => {
      const [first, second] = place % 2 ? [one, other] : [other, one];
      return [first.effect(tell(name)), second.effect(tell(name))];
    }),
  );
  // Nobody is told anything that was really a conflict of transactions.
  assert.deepEqual(
    ends.map(words).filter((end) => end !== "accepted" && end !== "still_running"),
    [],
  );
  for (const name of names) assert.equal(recipient.hits(name), 1, name);
});

test("while its process may still run it, nobody asks and nobody concludes; afterwards the next call asks", async () => {
  const answer = recipient.holdReply("window");
  const running = one.effect({ name: "window", runs: recipient.url("window"), runTimeoutMs: 700 });
  await answer.reached;
  const early = calls();
  await assert.rejects(effect("window", early), stillRunning);
  const [concluded] = await Promise.allSettled([
    subject.sql(
      `select effects_ledger.record_inline(jsonb_build_object('effect_id', effect_id, 'via', 'reconcile', 'outcome', 'uncertain'), 'x')
         from audit.effects where name = 'window'`,
    ),
  ]);
  assert.ok(concluded?.status === "rejected" && concluded.reason.code === "55000");
  assert.deepEqual([await events("window"), early.ran(), early.asked()], [INTENT, 0, 0]);
  await passed("window");
  const late = calls({ reconcile: () => ({ receipt: "r1" }) });
  assert.equal((await effect("window", late)).outcome, "accepted");
  assert.deepEqual([late.ran(), late.asked()], [0, 1]);
  answer.release();
  assert.equal(words(await running), "accepted");
  assert.equal(recipient.hits("window"), 1);
});

test("it is the window of the intent that counts, not that of the call that finds it", async () => {
  const answer = recipient.holdReply("its-own");
  const running = one.effect({ name: "its-own", runs: recipient.url("its-own") });
  await answer.reached;
  await assert.rejects(effect("its-own", calls(), { runTimeoutMs: 0 }), stillRunning);
  answer.release();
  assert.equal(words(await running), "accepted");
});

test("a process that has reported is not running: the next call asks at once", async () => {
  const cut = recipient.proxy.cutReply({ to: (turn) => turn.includes(" /reported HTTP") });
  const told = { name: "reported", runs: recipient.url("reported") };
  const ended = one.effect(told);
  await cut.reached;
  assert.equal(words(await ended), "effect_unresolved");
  const next = calls({ reconcile: () => ({ receipt: "r1" }) });
  assert.equal((await effect("reported", next)).outcome, "accepted");
  assert.deepEqual([next.ran(), next.asked(), recipient.hits("reported")], [0, 1, 1]);
});

test("a process that was killed has not reported: only after its window the next call asks", async () => {
  const answer = recipient.holdReply("gone");
  const doomed = await startHostChild(subject);
  void doomed.effect({ name: "gone", runs: recipient.url("gone"), runTimeoutMs: 1_500 });
  await answer.reached;
  await doomed.kill();
  await assert.rejects(effect("gone", calls()), stillRunning);
  await passed("gone");
  assert.equal((await effect("gone", calls({ reconcile: () => ({ receipt: "r1" }) }))).outcome, "accepted");
  assert.equal(recipient.hits("gone"), 1);
});

test("run's signal aborts when its window has passed, and never where there is none", async () => {
  const aborted = calls({
    run: ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  });
  await assert.rejects(effect("signal", aborted, { runTimeoutMs: 200 }), unresolved);
  const signals: AbortSignal[] = [];
  await effect("no signal", calls({ run: ({ signal }) => ({ receipt: String(signals.push(signal)) }) }));
  assert.equal(signals[0]?.aborted, false);
});

test("an intent of another run, or of another name, is another effect", async () => {
  await assert.rejects(effect("same", calls({ run: lost })), unresolved);
  const elsewhere = calls();
  assert.equal((await openHost(subject, "order-43").effect("same", elsewhere)).outcome, "accepted");
  assert.equal((await effect("same too", elsewhere)).outcome, "accepted");
  assert.equal(elsewhere.ran(), 2);
});
