import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LedgerError } from "../../src/core/error.ts";
import {
  bindInline,
  checkInlineFunctions,
  checkInlineName,
  checkInlineTimer,
  decideCall,
  decideFound,
  decideIntent,
  decideProof,
  type InlineFacts,
  kindOf,
} from "../../src/core/inline.ts";
import { STATES } from "../../src/core/state.ts";
import { EffectUnresolvedError } from "../../src/core/unresolved-error.ts";
import { FACTS, withEffect, withTask } from "./admission-facts.ts";

const ASKED = { run: "order-42", name: "charge" };
const FOUND: InlineFacts = {
  effectId: "effect-1",
  key: "0".repeat(32),
  state: "admitted",
  via: null,
  proof: null,
  stillRunningMs: null,
  former: false,
};

function refusal(found: Partial<InlineFacts>): LedgerError {
  const next = decideCall({ ...FOUND, ...found }, ASKED);
  assert.ok(next.next === "reject");
  return next.error;
}

describe("a call", () => {
  test("that finds nothing is admitted, and one that finds an intent asks", () => {
    assert.deepEqual(decideCall(null, ASKED), { next: "admit" });
    assert.deepEqual(decideCall(FOUND, ASKED), { next: "reconcile" });
  });

  test("is never admitted again, whatever state it finds", () => {
    for (const state of STATES) assert.notEqual(decideCall({ ...FOUND, state }, ASKED).next, "admit", state);
  });

  test("answers what was recorded, with how it came", () => {
    for (const via of ["run", "reconcile"] as const) {
      const next = decideCall({ ...FOUND, state: "accepted", via, proof: '{"id":1}' }, ASKED);
      assert.deepEqual(next, { next: "answer", end: { outcome: "accepted", proof: { id: 1 }, via } });
    }
    const uncertain = decideCall({ ...FOUND, state: "uncertain", via: "resolve" }, ASKED);
    assert.deepEqual(uncertain, { next: "answer", end: { outcome: "uncertain" } });
  });

  test("does not ask too early, and says for how long", () => {
    const error = refusal({ stillRunningMs: 1_234 });
    assert.ok(error instanceof EffectUnresolvedError && error instanceof LedgerError);
    assert.deepEqual([error.name, error.code, error.effectId], ["EffectUnresolvedError", "still_running", "effect-1"]);
    assert.match(error.message, /"charge" of run "order-42" .* 1234 ms/);
  });

  for (const [what, found, code] of [
    ["that was never run", { state: "no_effect" }, "never_run"],
    ["of the former ledger", { former: true }, "former_ledger"],
    ["whose proof was purged", { state: "accepted", via: "run" }, "proof_purged"],
  ] as const) {
    test(`that finds an effect ${what} is refused: ${code}`, () => {
      const error = refusal(found);
      assert.deepEqual([error.code, error instanceof EffectUnresolvedError], [code, false]);
      assert.ok(error.hint);
    });
  }

  test("of the former ledger that has ended answers all the same", () => {
    assert.equal(decideCall({ ...FOUND, state: "uncertain", former: true }, ASKED).next, "answer");
  });
});

describe("an intent", () => {
  test("passes the decision of every admission, and its horizons", () => {
    const decision = decideIntent(withTask(FACTS, "root", { deadlineMs: FACTS.nowMs + 5 }));
    assert.deepEqual(decision, { intent: "admitted", permitExpiresAtMs: FACTS.nowMs + 5, digest: "d1" });
  });

  test("that would wait is refused as one that would be declined is", () => {
    const paused = decideIntent({ ...FACTS, pauses: [{ scope: "all", target: "", reason: "INC-91" }] });
    assert.ok(paused.intent === "refused");
    assert.deepEqual([paused.code, paused.detail.reason], ["paused", "INC-91"]);
    const ended = decideIntent(withTask(FACTS, "root", { ended: true }));
    assert.equal(ended.intent === "refused" && ended.code, "task_ended");
    const again = decideIntent(withEffect(FACTS, { state: "admitted" }));
    assert.equal(again.intent === "refused" && again.code, "permit_consumed");
  });

  test("is bound by the ledger, the run, the name and the actor, whatever they look like", () => {
    const request = {
      effectId: "effect-1",
      key: FOUND.key,
      ledgerId: "ledger-1",
      actor: "shop",
      taskId: "task-1",
      subject: null,
      expiresAtMs: 1,
      policy: { policyId: "p", name: "ordinary", revision: 1 },
    };
    const digests = [ASKED, { run: "order", name: "42/charge" }, { run: "order-42", name: "charge " }].flatMap(
      (asked) =>
        [request, { ...request, actor: "till" }, { ...request, ledgerId: "ledger-2" }].map((each) =>
          bindInline(asked, each, "r1", Buffer.alloc(16)).digest.toString("hex"),
        ),
    );
    assert.equal(new Set(digests).size, digests.length);
    const longest = { run: "🙂".repeat(200), name: "\u0001".repeat(200) };
    assert.ok(bindInline(longest, request, "r1", Buffer.alloc(16)).bytes.length < 65_536);
  });
});

describe("what comes back", () => {
  test("null is an answer of a reconcile, and no proof of a run; undefined is neither", () => {
    assert.equal(decideFound(null).decision, "uncertain");
    assert.equal(decideProof(null).decision, "unresolved");
    assert.equal(decideFound(undefined).decision, "unresolved");
    assert.equal(decideProof(undefined).decision, "unresolved");
  });

  test("a proof is at most 65,536 bytes of canonical JSON, counted in UTF-8", () => {
    const emoji = "🙂".repeat(16_383); // 65,532 bytes, and two quotes
    assert.equal(decideProof(`${emoji}ab`).decision, "outcome");
    assert.equal(decideProof(`${emoji}abc`).decision, "unresolved");
  });

  test("of what was thrown only its kind is recorded, whatever it is", () => {
    const unreadable = new Proxy(new Error("x"), { get: () => assert.fail("its words are its caller's") });
    for (const [thrown, kind] of [
      [new TypeError("sk_live"), "TypeError"],
      [Object.assign(new Error("sk_live"), { code: "ECONNRESET" }), "Error ECONNRESET"],
      ["sk_live", "string"],
      [undefined, "undefined"],
      [null, "null"],
      [{ message: "sk_live" }, "object"],
      [unreadable, "something that cannot be read"],
    ] as const) {
      assert.equal(kindOf(thrown), kind);
    }
  });
});

describe("arguments", () => {
  const invalid = (check: () => void) => assert.throws(check, { code: "inline_invalid" });

  test("a name of 200 characters passes, whatever they are, and what the record would change does not", () => {
    checkInlineName({ run: "🙂".repeat(200), name: "a/b\n" });
    for (const bad of ["", "a\0", "\ud800", "🙂".repeat(201)]) {
      invalid(() => checkInlineName({ run: bad, name: "charge" }));
      invalid(() => checkInlineName({ run: "order-42", name: bad }));
    }
  });

  test("a timer is an integer that Node keeps, and only a run's may be off", () => {
    checkInlineTimer("runTimeoutMs", 0, 0);
    checkInlineTimer("reconcileTimeoutMs", 2_147_483_647, 1);
    for (const ms of [-1, 0.5, 2_147_483_648, Number.NaN, Number.POSITIVE_INFINITY]) {
      invalid(() => checkInlineTimer("runTimeoutMs", ms, 0));
    }
    invalid(() => checkInlineTimer("reconcileTimeoutMs", 0, 1));
  });

  test("both functions are wanted, and looked for before anything is recorded", () => {
    checkInlineFunctions({ run: () => 1, reconcile: () => null });
    invalid(() => checkInlineFunctions({ run: () => 1, reconcile: undefined }));
    invalid(() => checkInlineFunctions({ run: "run", reconcile: () => null }));
  });
});
