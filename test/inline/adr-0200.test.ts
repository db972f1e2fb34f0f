/**
 * ADR 0200, sentence by sentence, on a host with a lease of its own (`runTimeoutMs: 0`: then every sentence of it holds).
 * What a sentence says stands above its test. Bounds, sharing and consequences: adr-0200-bounds.test.ts.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EffectUnresolvedError } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch } from "../harness/wait.ts";
import { calls, INTENT, LEASED, lost, openHost, unresolved } from "./calls.ts";

const subject = await openTestLedger();
const { effect, events } = openHost(subject);

describe("context", () => {
  // "record the intent before the effect, record what the recipient named it after, and settle an intent found without an
  // outcome only by the recipient's own record"
  test("an intent before, the recipient's name after, and an intent without an outcome settled by what the recipient has", async () => {
    const seen: (readonly string[])[] = [];
    const sure = calls({
      run: async () => {
        seen.push(await events("rule"));
        return { receipt: "r1" };
      },
    });
    await effect("rule", sure);
    assert.deepEqual(seen, [INTENT]);
    assert.deepEqual(await events("rule"), [...INTENT, "accepted via run"]);
    await assert.rejects(effect("rule, cut", calls({ run: lost })), unresolved);
    const found = await effect("rule, cut", calls({ reconcile: () => ({ receipt: "theirs" }) }));
    assert.deepEqual(found, { outcome: "accepted", proof: { receipt: "theirs" }, via: "reconcile" });
  });

  // "it wrote nothing before a permission reply, so a lost acknowledgement could send the reply twice"
  test("a lost acknowledgement sends no reply twice", async () => {
    const replies: string[] = [];
    const reply = calls({
      run: () => {
        replies.push("allow");
        return lost();
      },
      reconcile: () => (replies.length > 0 ? { receipt: "reply 1" } : null),
    });
    await assert.rejects(effect("reply", reply), unresolved);
    assert.equal((await effect("reply", reply)).outcome, "accepted");
    assert.deepEqual(replies, ["allow"]);
  });
});

describe("decision", () => {
  // "gains effect(name, { run, reconcile }, options)"
  test("effect(name, { run, reconcile }, options) is all that a host calls; no operation, no worker", async () => {
    const end = await subject.ledger
      .run("order-1")
      .effect("signature", { run: async () => "ch_1", reconcile: async () => null }, { reconcileTimeoutMs: 1_000 });
    assert.deepEqual(end, { outcome: "accepted", proof: "ch_1", via: "run" });
    assert.equal(await subject.value("select count(*) from audit.workers"), "0");
  });

  // "the intent is appended to the ledger before run"
  test("the intent is committed before run is called, and no transaction of ours is open while it runs", async () => {
    const look = async () => ({
      events: await events("before"),
      open: await subject.value(
        "select count(*) from pg_stat_activity where application_name like 'pg-effects%' and datname = current_database() and xact_start is not null",
      ),
    });
    const seen: unknown[] = [];
    await effect("before", calls({ run: async () => ({ receipt: String(seen.push(await look())) }) }));
    assert.deepEqual(seen, [{ events: INTENT, open: "0" }]);
  });

  // "the proof run returns is appended after, as accepted"
  test("the proof that run returns is recorded as accepted, as it is", async () => {
    const proof = { receipt: "é🙂", list: [1, { a: null }] };
    const end = await subject.ledger
      .run("order-42")
      .effect("proof", { run: async () => proof, reconcile: async () => null });
    assert.deepEqual(end, { outcome: "accepted", proof, via: "run" });
    assert.deepEqual(
      await subject.sql("select state, outcome_via, admitted_under from audit.effects where name = 'proof'"),
      [{ state: "accepted", outcome_via: "run", admitted_under: "inline" }],
    );
    assert.deepEqual(
      await subject.sql(
        "select body, source, authoritative from audit.evidence join audit.effects using (effect_id) where name = 'proof'",
      ),
      [{ body: proof, source: "run", authoritative: true }],
    );
  });

  // "a call that finds an intent without an outcome calls reconcile, never run"
  test("a call that finds an intent without an outcome calls reconcile, never run", async () => {
    const first = calls({ run: lost });
    await assert.rejects(effect("found", first), unresolved);
    const second = calls({ reconcile: () => ({ receipt: "r2" }) });
    await effect("found", second);
    assert.deepEqual([first.ran(), first.asked(), second.ran(), second.asked()], [1, 0, 0, 1]);
  });

  // "A proof found is recorded as accepted"
  test("a proof found is recorded as accepted", async () => {
    await assert.rejects(effect("proof found", calls({ run: lost })), unresolved);
    const end = await effect("proof found", calls({ reconcile: () => ({ receipt: "r2" }) }));
    assert.deepEqual(end, { outcome: "accepted", proof: { receipt: "r2" }, via: "reconcile" });
    assert.deepEqual(await events("proof found"), [...INTENT, "unresolved", "accepted via reconcile"]);
  });

  // "null is recorded as uncertain"
  test("null is recorded as uncertain", async () => {
    await assert.rejects(effect("nothing found", calls({ run: lost })), unresolved);
    assert.deepEqual(await effect("nothing found", calls()), { outcome: "uncertain" });
    assert.deepEqual(await events("nothing found"), [...INTENT, "unresolved", "uncertain via reconcile"]);
  });

  // "Both are final: run is never called for that name again, and uncertain is not reconciled again — it is an answer the
  // caller sees and decides on"
  for (const [name, reconcile] of [
    ["final, found", () => ({ receipt: "r2" })],
    ["final, not found", () => null],
  ] as const) {
    test(`${name}: it is answered again, and neither run nor reconcile is called`, async () => {
      await assert.rejects(effect(name, calls({ run: lost })), unresolved);
      const end = await effect(name, calls({ reconcile }));
      const again = calls();
      for (let call = 0; call < 3; call++) assert.deepEqual(await effect(name, again), end);
      assert.deepEqual([again.ran(), again.asked()], [0, 0]);
    });
  }

  test("final, by its run: it is answered again, and neither run nor reconcile is called", async () => {
    const sure = calls();
    const end = await effect("final, run", sure);
    assert.deepEqual(await effect("final, run", sure), end);
    assert.deepEqual([sure.ran(), sure.asked()], [1, 0]);
  });

  // "run throwing leaves the intent standing and rejects with EffectUnresolvedError: whether the effect happened is exactly
  // what is not known, so the next call reconciles"
  for (const [what, run] of [
    ["an error", lost],
    ["nothing", () => Promise.reject(undefined)],
    ["a string", () => Promise.reject("no")],
  ] as const) {
    test(`run throwing ${what} leaves the intent standing and rejects with EffectUnresolvedError; the next call asks`, async () => {
      const name = `thrown: ${what}`;
      const rejection = await effect(name, calls({ run })).catch((error: unknown) => error);
      assert.ok(rejection instanceof EffectUnresolvedError);
      assert.match(rejection.effectId ?? "", /^[0-9a-f-]{36}$/);
      if (what === "an error") assert.equal((rejection.cause as Error).message, "the connection was reset");
      assert.deepEqual(
        await subject.sql("select state, unresolved from audit.effects where effect_id = $1", [rejection.effectId]),
        [{ state: "admitted", unresolved: true }],
      );
      const next = calls();
      await effect(name, next);
      assert.deepEqual([next.ran(), next.asked()], [0, 1]);
    });
  }

  // "reconcile throwing or overrunning its deadline does the same — 'could not ask' is not 'not there'"
  test("reconcile throwing leaves the intent standing and rejects with EffectUnresolvedError, as often as it throws", async () => {
    await assert.rejects(effect("deaf", calls({ run: lost })), unresolved);
    const deaf = calls({ reconcile: lost });
    await assert.rejects(effect("deaf", deaf), unresolved);
    await assert.rejects(effect("deaf", deaf), unresolved);
    assert.deepEqual([deaf.ran(), deaf.asked()], [0, 2]);
    assert.deepEqual(await events("deaf"), [...INTENT, "unresolved"]);
    assert.equal((await effect("deaf", calls({ reconcile: () => ({ receipt: "r2" }) }))).outcome, "accepted");
  });

  test("reconcile overrunning its deadline does the same, whatever it says afterwards", async () => {
    await assert.rejects(effect("slow", calls({ run: lost })), unresolved);
    const late = latch();
    const slow = calls({ reconcile: () => late.opened.then(() => null) });
    await assert.rejects(effect("slow", slow, { ...LEASED, reconcileTimeoutMs: 20 }), unresolved);
    late.open();
    await late.opened;
    assert.deepEqual(await events("slow"), [...INTENT, "unresolved"]);
    assert.equal((await effect("slow", calls({ reconcile: () => ({ receipt: "r2" }) }))).outcome, "accepted");
  });

  test("a reconcile that keeps the process busy past its deadline has overrun it, though it answers", async () => {
    await assert.rejects(effect("busy", calls({ run: lost })), unresolved);
    const busy = calls({
      reconcile: () => {
        const ends = performance.now() + 30;
        while (performance.now() < ends); // as a synchronous client would
        return null;
      },
    });
    await assert.rejects(effect("busy", busy, { ...LEASED, reconcileTimeoutMs: 20 }), unresolved);
    assert.deepEqual(await events("busy"), [...INTENT, "unresolved"]);
  });
});
