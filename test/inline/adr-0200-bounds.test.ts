/**
 * ADR 0200, sentence by sentence: how it is bounded and shared, what the records are, and its consequences. The sentences
 * before them: adr-0200.test.ts.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { openLedger } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";
import { calls, LEASED, lost, openHost, unresolved } from "./calls.ts";

const subject = await openTestLedger();
const { effect, events } = openHost(subject);

describe("bounds and records", () => {
  // "it is bounded (I10): reconcile runs under reconcileTimeoutMs (default 30 s) with an abort signal"
  test("reconcile runs under reconcileTimeoutMs with an abort signal", async () => {
    await assert.rejects(effect("signalled", calls({ run: lost })), unresolved);
    const aborted = Promise.withResolvers<void>();
    const waiting = calls({
      reconcile: ({ signal }) => {
        assert.equal(signal.aborted, false);
        signal.addEventListener("abort", () => aborted.resolve());
        return new Promise(() => {}); // it ignores its signal, and never ends
      },
    });
    await assert.rejects(effect("signalled", waiting, { ...LEASED, reconcileTimeoutMs: 20 }), unresolved);
    await aborted.promise;
  });

  test("reconcileTimeoutMs is 30 s by default", async (t) => {
    await assert.rejects(effect("by default", calls({ run: lost })), unresolved);
    const timers = t.mock.method(globalThis, "setTimeout");
    const delays = () => timers.mock.calls.map(({ arguments: [, delay] }) => delay);
    await effect("by default", calls({ reconcile: () => ({ receipt: delays().join(" ") }) }), LEASED);
    const [during] = await subject.sql<{ receipt: string }>(
      "select body ->> 'receipt' as receipt from audit.evidence join audit.effects using (effect_id) where name = 'by default'",
    );
    assert.match(during?.receipt ?? "", /\b30000\b/);
  });

  // "a proof is at most 64 KiB of JSON — an identity the recipient assigned, not a payload"
  test("a proof of 65,536 bytes is kept, and one of 65,537 is not", async () => {
    const most = "x".repeat(65_534); // two quotes
    const kept = { run: async () => most, reconcile: async () => null };
    const end = await subject.ledger.run("order-42").effect("64 KiB", kept, LEASED);
    assert.deepEqual(end, { outcome: "accepted", proof: most, via: "run" });
    const more = { run: async () => `${most}x`, reconcile: async () => null };
    await assert.rejects(subject.ledger.run("order-42").effect("64 KiB and 1", more, LEASED), unresolved);
  });

  // "in one process, concurrent calls for the same name share one run, as concurrent step calls share one body"
  test("in one process, concurrent calls for the same name share one run", async () => {
    const goOn = latch();
    const shared = calls({ run: () => goOn.opened.then(() => ({ receipt: "r1" })) });
    const another = await openLedger({ connectionString: subject.connectionString });
    subject.atEnd(() => another.close());
    const ends = [
      ...[1, 2, 3].map(() => effect("shared", shared)),
      another.run("order-42").effect("shared", shared.functions, LEASED),
    ];
    await waitFor("it runs", shared.ran);
    ends.push(effect("shared", shared));
    goOn.open();
    assert.deepEqual(new Set((await Promise.all(ends)).map((end) => JSON.stringify(end))).size, 1);
    assert.deepEqual([shared.ran(), shared.asked()], [1, 0]);
  });

  test("they share its rejection too, and the next call asks", async () => {
    const shared = calls({ run: lost });
    const ends = await Promise.allSettled([effect("shared, lost", shared), effect("shared, lost", shared)]);
    assert.ok(ends.every((end) => end.status === "rejected" && unresolved(end.reason)));
    assert.deepEqual([shared.ran(), shared.asked()], [1, 0]);
    await effect("shared, lost", shared);
    assert.deepEqual([shared.ran(), shared.asked()], [1, 1]);
  });

  // "The records are a new ledger event kind, durability/effect, with phases intent, accepted (with via: run | reconcile) and
  // uncertain"
  test("the record's events are intent, accepted with its via, and uncertain", async () => {
    await effect("phases", calls());
    assert.deepEqual((await events("phases")).slice(3), ["intent", "accepted via run"]);
    for (const [name, reconcile] of [
      ["phases, found", () => ({ receipt: "r2" })],
      ["phases, not found", () => null],
    ] as const) {
      await assert.rejects(effect(name, calls({ run: lost })), unresolved);
      await effect(name, calls({ reconcile }));
    }
    assert.deepEqual((await events("phases, found")).slice(-1), ["accepted via reconcile"]);
    assert.deepEqual((await events("phases, not found")).slice(-1), ["uncertain via reconcile"]);
    assert.deepEqual(
      await subject.sql(
        "select v.detail from audit.events v join audit.effects e using (effect_id) where e.name = 'phases' and v.event = 'intent'",
      ),
      [{ detail: { run: "order-42", name: "phases" } }],
    );
  });

  // "The first outcome recorded wins."
  test("the first outcome recorded wins: a run that ends after another process could not find it gets that answer", async () => {
    const goOn = latch();
    const slow = calls({ run: () => goOn.opened.then(() => ({ receipt: "late" })) });
    const running = effect("first wins", slow);
    await waitFor("it runs", slow.ran);
    // Another process, with the lease now: what it finds is recorded by the same functions.
    await subject.sql(
      `select effects_ledger.record_inline(jsonb_build_object('effect_id', e.effect_id, 'via', 'reconcile', 'outcome', 'uncertain',
         'evidence', jsonb_build_object('bytes', encode('null', 'hex'), 'digest', encode(sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || 'null'), 'hex'))), 'other')
         from audit.effects e where e.name = 'first wins'`,
    );
    goOn.open();
    assert.deepEqual(await running, { outcome: "uncertain" });
    assert.deepEqual(await effect("first wins", calls()), { outcome: "uncertain" });
    // What it returned is not lost: authoritative evidence beside what is uncertain is a resolution.
    assert.deepEqual(
      await subject.sql(
        "select state, outcome, resolution, resolution_says from audit.effects where name = 'first wins'",
      ),
      [{ state: "uncertain", outcome: "uncertain", resolution: "evidence", resolution_says: "accepted" }],
    );
  });
});

describe("consequences", () => {
  // "a host supplies reconcile — the lookup at the recipient by its own identity for the effect"
  test("run and reconcile get one identity for the effect, the same in every call", async () => {
    const keys: string[] = [];
    const known = calls({
      run: ({ key }) => {
        keys.push(key);
        return lost();
      },
      reconcile: ({ key }) => ({ receipt: String(keys.push(key)) }),
    });
    await assert.rejects(effect("identity", known), unresolved);
    await effect("identity", known);
    const stored = await subject.sql("select key from audit.effects where name = 'identity'");
    assert.deepEqual(
      keys.map((key) => ({ key })),
      [1, 2].flatMap(() => stored),
    );
  });

  // "uncertain is visible and permanent"
  test("uncertain is visible, and permanent: it is answered after somebody resolved it, too", async () => {
    await assert.rejects(effect("permanent", calls({ run: lost })), unresolved);
    await effect("permanent", calls());
    const seen = "select reason from audit.unresolved where name = 'permanent'";
    assert.deepEqual(await subject.sql(seen), [{ reason: "asked, and nobody could tell" }]);
    await subject.sql(
      `select effects.resolve(effect_id, 'accepted', '{"statement": "page 3"}', 'seen on the statement') from audit.effects where name = 'permanent'`,
    );
    assert.deepEqual(await subject.sql(seen), []);
    const again = calls();
    assert.deepEqual(await effect("permanent", again), { outcome: "uncertain" });
    assert.deepEqual([again.ran(), again.asked()], [0, 0]);
  });

  // "A host that wants to retry an uncertain effect does so under a new name, by its own decision."
  test("what is uncertain runs again under a new name only", async () => {
    await assert.rejects(effect("try", calls({ run: lost })), unresolved);
    await effect("try", calls());
    const second = calls();
    assert.equal((await effect("try", second)).outcome, "uncertain");
    assert.equal((await effect("try, again", second)).outcome, "accepted");
    assert.equal(second.ran(), 1);
  });

  // "Across processes the guarantee is the ledger's: two processes that append to it concurrently are fenced by whatever
  // lease already fences the run … effect does not add a lease": two-processes.test.ts and crash.test.ts, with real ones.

  // "ToolDurability … is unchanged: adding a required method to a port that hosts implement would break every implementation."
  test("no operation is touched: none is listed for requests, and `inline` cannot be requested or defined", async () => {
    const { defineOperation } = await import("../../src/index.ts");
    const { z } = await import("zod");
    await assert.rejects(subject.sql(`select effects.enqueue('inline', '{"run": "a", "name": "b"}')`), {
      code: "PE101",
    });
    const definition = { name: "inline", version: 1, input: z.strictObject({}), dispatch: () => assert.fail() };
    assert.throws(() => defineOperation(definition), { code: "operation_invalid" });
  });
});
