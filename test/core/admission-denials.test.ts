import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { decideAdmissions, explainAdmission, type Verdict } from "../../src/core/admission.ts";
import { DENIALS, type DenialCode, RETRY_AFTER_MS } from "../../src/core/denial.ts";
import { type AdmissionFacts, laneKey, type OwnersPolicy, type Pause } from "../../src/core/facts.ts";
import { CHECKS } from "../../src/core/reasons.ts";
import { REBINDINGS_MAX } from "../../src/core/rebind.ts";
import { STATES } from "../../src/core/state.ts";
import {
  budget,
  EFFECT,
  EXPIRES_AT_MS,
  FACTS,
  NOW_MS,
  protectedUnder,
  withEffect,
  withTask,
} from "./admission-facts.ts";

type Change = (facts: AdmissionFacts) => AdmissionFacts;
const operation =
  (changed: Partial<typeof EFFECT.operation>): Change =>
  (facts) =>
    withEffect(facts, { operation: { ...(facts.effects[0] ?? EFFECT).operation, ...changed } });

/** Under a policy of the owner's, which stays what earlier changes made of it. */
function under(changed: Partial<OwnersPolicy>): Change {
  return (facts) => protectedUnder(facts, changed);
}

/** Its contract says that a precondition is enforced, and none is bound. */
const lacking: Change = (facts) =>
  withEffect(under({})(facts), { running: { ...EFFECT.running, precondition: "enforced" } });

/** It tries again what evidence speaks of. */
function followed(said: "accepted" | "contradicted"): Change {
  return (facts) => withEffect(facts, { follows: "effect-0", against: { effectId: "effect-0", said } });
}

/** Every denial that can be decided now, in order of precedence, with a change of the facts that makes it stand. */
const BREAKS: readonly (readonly [code: DenialCode, breaks: Change, as: "waits" | "denied" | "expired" | "revoked"])[] =
  [
    ["recovery_unacknowledged", (facts) => ({ ...facts, identity: "unacknowledged" }), "waits"],
    ["violation_unacknowledged", (facts) => ({ ...facts, violated: true }), "waits"],
    ["ledger_standby", (facts) => ({ ...facts, identity: "standby" }), "waits"],
    ["durability_missing", (facts) => ({ ...facts, durabilityGap: "fsync" }), "waits"],
    ["binding_expired", (facts) => withEffect(facts, { expiresAtMs: NOW_MS }), "expired"],
    ["binding_mismatch", (facts) => withEffect(facts, { bytesMatch: false }), "denied"],
    ["payload_mismatch", (facts) => withEffect(facts, { payloadMatch: false }), "denied"],
    ["invocation_ended", (facts) => withEffect(facts, { invocationEnded: true }), "denied"],
    ["operation_withdrawn", operation({ withdrawn: true }), "revoked"],
    ["operation_not_allowed", operation({ protected: true, allowedImplementation: null }), "denied"],
    ["unsupported", lacking, "denied"],
    [
      "implementation_changed",
      (facts) => withEffect(facts, { implementation: "other", rebindings: REBINDINGS_MAX - 1 }),
      "waits",
    ],
    [
      "binding_unstable",
      (facts) => withEffect(facts, { implementation: "other", rebindings: REBINDINGS_MAX }),
      "denied",
    ],
    ["task_revoked", (facts) => withTask(facts, "root", { revoked: true }), "revoked"],
    ["task_ended", (facts) => withTask(facts, "root", { ended: true }), "denied"],
    ["task_expired", (facts) => withTask(facts, "root", { deadlineMs: NOW_MS }), "expired"],
    ["actor_revoked", (facts) => ({ ...facts, actors: new Map([["shop", { revoked: true }]]) }), "revoked"],
    ["paused", (facts) => ({ ...facts, pauses: [{ scope: "all", target: "", reason: "INC-91" }] }), "waits"],
    ["not_yet", (facts) => withEffect(facts, { notBeforeMs: NOW_MS + 1 }), "waits"],
    ["policy_missing", (facts) => withEffect(facts, { policyId: null }), "denied"],
    ["policy_revoked", under({ revoked: true }), "revoked"],
    ["policy_expired", under({ expiresAtMs: NOW_MS }), "expired"],
    ["policy_exhausted", under({ admissionsMax: 3n, admissionsUsed: 3n }), "denied"],
    ["approval_required", under({ approvalsNeeded: 1, approvers: ["ana"] }), "waits"],
    ["predecessor_accepted", followed("accepted"), "denied"],
    ["predecessor_contradicted", followed("contradicted"), "denied"],
    ["budget_missing", (facts) => ({ ...under({})(facts), budgets: [] }), "denied"],
    ["budget_exceeded", (facts) => ({ ...facts, budgets: [budget("root", 99n)] }), "denied"],
    ["budget_held", (facts) => ({ ...facts, budgets: [budget("root", 100n, { reserved: 1n })] }), "waits"],
    ["doubt_limit", under({ openMax: 2n, openNow: 2n }), "waits"],
    [
      "lane_busy",
      (facts) => ({ ...withEffect(facts, { lane: "42" }), busyLanes: new Set([laneKey("charge_card", "42")]) }),
      "waits",
    ],
  ];

function decideOne(facts: AdmissionFacts): Verdict {
  const [verdict, ...others] = decideAdmissions(facts);
  assert.ok(verdict && others.length === 0);
  return verdict;
}
const codeOf = (verdict: Verdict) => ("code" in verdict ? verdict.code : verdict.verdict);

describe("each denial", () => {
  test("the facts that the table starts from admit", () => assert.equal(decideOne(FACTS).verdict, "admitted"));

  test("the table is in the order of the closed list", () => {
    const codes = BREAKS.map(([code]) => code);
    assert.deepEqual(
      codes,
      Object.keys(DENIALS).filter((code) => codes.includes(code as DenialCode)),
    );
  });

  for (const [place, [code, breaks, as]] of BREAKS.entries()) {
    test(`${code} alone is the code, and it ${as === "waits" ? "waits" : `is declined as ${as}`}`, () => {
      const verdict = decideOne(breaks(FACTS));
      assert.equal(codeOf(verdict), code);
      assert.equal(verdict.verdict, as === "waits" ? "waits" : "declined");
      if (verdict.verdict === "declined") assert.equal(verdict.reason, as);
      if (verdict.verdict === "waits") assert.equal(verdict.waitingFor, DENIALS[code]);
    });

    test(`${code} goes before everything that comes later`, () => {
      // From the last to the first: where two are opposite values of one fact, the earlier one stands.
      const later = BREAKS.slice(place);
      const facts = later.reduceRight((broken, [, change]) => change(broken), FACTS);
      assert.equal(codeOf(decideOne(facts)), code);
    });

    test(`${code} is declined at once where the request says so`, () => {
      const verdict = decideOne(withEffect(breaks(FACTS), { onDenial: "decline" }));
      assert.deepEqual([verdict.verdict, codeOf(verdict)], ["declined", code]);
    });
  }
});

const PROTECTED = { protected: true, allowedImplementation: "bound" };

function pausedAs(scope: Pause["scope"], target: string): AdmissionFacts {
  return { ...FACTS, pauses: [{ scope, target, reason: "INC-91" }] };
}

describe("the same fact from elsewhere", () => {
  for (const [scope, target] of [
    ["operation", "refund_card"],
    ["operation", "charge"],
    ["task", "shops/2"],
    ["target", "cards/43"],
  ] as const) {
    test(`a pause of the ${scope} ${target} is another's`, () => {
      assert.equal(decideOne(pausedAs(scope, target)).verdict, "admitted");
    });
  }

  const ELSEWHERE: readonly (readonly [what: string, facts: AdmissionFacts, code: DenialCode])[] = [
    [
      "an ancestor that is not among the facts",
      { ...FACTS, tasks: new Map([["child", { name: "shops/1", ended: false, revoked: false, deadlineMs: null }]]) },
      "task_revoked",
    ],
    ["the own task is revoked", withTask(FACTS, "child", { revoked: true }), "task_revoked"],
    ["the own task has ended", withTask(FACTS, "child", { ended: true }), "task_ended"],
    ["the own task is past its deadline", withTask(FACTS, "child", { deadlineMs: NOW_MS - 1 }), "task_expired"],
    ["an actor that is not among the facts", { ...FACTS, actors: new Map() }, "actor_revoked"],
    ["an actor that lost the role by which it asks", withEffect(FACTS, { entitled: false }), "actor_revoked"],
    ["a protected operation bound as an ordinary one", operation(PROTECTED)(FACTS), "implementation_changed"],
    [
      "a binding of another release, where it is protected",
      under({})(withEffect(FACTS, { release: "r0" })),
      "implementation_changed",
    ],
    [
      "a worker that does not run what is allowed",
      operation({ ...PROTECTED, allowedImplementation: "reviewed" })(under({})(FACTS)),
      "implementation_changed",
    ],
    [
      "a binding older than the contract allows",
      withEffect(FACTS, { running: { ...EFFECT.running, preparedWithinMs: 999 } }),
      "implementation_changed",
    ],
    ["a binding older than the policy allows", under({ preparedWithinMs: 999 })(FACTS), "implementation_changed"],
    [
      "a precondition that the contract declares and the binding does not state",
      under({})(withEffect(FACTS, { running: { ...EFFECT.running, precondition: "enforced" } })),
      "unsupported",
    ],
    [
      "what a host runs itself, where every operation is protected",
      operation({ name: "inline", protected: true })(FACTS),
      "unsupported",
    ],
    ["a policy of another target", under({ target: { match: "exact", text: "cards/43" } })(FACTS), "policy_missing"],
    ["a policy below its cost", under({ costs: { usd_cents: 99n } })(FACTS), "policy_missing"],
    ["a policy of another version", under({ version: 2 })(FACTS), "policy_missing"],
    ["a policy of another actor", under({ actor: "till" })(FACTS), "policy_missing"],
    ["a policy of another task", under({ taskId: "elsewhere" })(FACTS), "policy_missing"],
    ["its operation stands paused", pausedAs("operation", "charge_card"), "paused"],
    ["its own task stands paused", pausedAs("task", "shops/1"), "paused"],
    ["a task above it stands paused", pausedAs("task", "shops"), "paused"],
    ["targets that begin like its own stand paused", pausedAs("target", "cards/"), "paused"],
  ];
  for (const [what, facts, code] of ELSEWHERE) {
    test(`${what}: ${code}`, () => assert.equal(codeOf(decideOne(facts)), code));
  }

  test("a protected operation that is allowed, a deadline and a start that are not reached or just are, do not deny", () => {
    const allowed = protectedUnder(FACTS, {});
    const late = withTask(withEffect(allowed, { notBeforeMs: NOW_MS, expiresAtMs: NOW_MS + 1 }), "root", {
      deadlineMs: NOW_MS + 1,
    });
    assert.equal(decideOne(late).verdict, "admitted");
  });
});

describe("waiting", () => {
  const retryAfter = (facts: AdmissionFacts) => {
    const verdict = decideOne(facts);
    assert.ok(verdict.verdict === "waits");
    return verdict.retryAfterMs;
  };
  const paused: AdmissionFacts = { ...FACTS, pauses: [{ scope: "all", target: "", reason: "INC-91" }] };

  test("it is looked at again after the time that its kind of waiting has", () => {
    assert.equal(retryAfter(paused), RETRY_AFTER_MS.paused);
  });

  test("what was asked for later is looked at then", () => {
    assert.equal(retryAfter(withEffect(FACTS, { notBeforeMs: NOW_MS + 12_345 })), 12_345);
  });

  test("never later than its expiry, so that it is declined then", () => {
    assert.equal(retryAfter(withEffect(paused, { expiresAtMs: NOW_MS + 7 })), 7);
    assert.equal(retryAfter(withEffect(FACTS, { notBeforeMs: EXPIRES_AT_MS + 1 })), EXPIRES_AT_MS - NOW_MS);
  });

  test("what has expired on a closed ledger is not looked at over and over", () => {
    const expired = withEffect({ ...FACTS, identity: "unacknowledged" }, { expiresAtMs: NOW_MS - 1 });
    assert.equal(retryAfter(expired), RETRY_AFTER_MS.recovery);
  });
});

describe("what is not prepared", () => {
  for (const state of STATES.filter((each) => each !== "prepared")) {
    test(`${state}: its state is told, whatever else stands`, () => {
      const facts = withEffect({ ...FACTS, identity: "unacknowledged" }, { state });
      assert.deepEqual(decideOne(facts), { verdict: "already", effectId: "effect-1", state });
    });
  }
});

describe("an explanation", () => {
  test("has the eight checks in order, and nothing against an effect that would be admitted", () => {
    const lines = explainAdmission(FACTS, EFFECT);
    assert.deepEqual(
      lines.map(({ check }) => check),
      [...CHECKS],
    );
    assert.ok(lines.every(({ denial }) => denial === null));
  });

  for (const [code, breaks] of BREAKS) {
    test(`of ${code} names it in one line, with what is waited for`, () => {
      const facts = breaks(FACTS);
      const standing = explainAdmission(facts, facts.effects[0] ?? EFFECT).filter(({ denial }) => denial !== null);
      assert.deepEqual(
        standing.map(({ denial }) => denial?.code),
        [code],
      );
      assert.equal(standing[0]?.denial?.waitingFor, DENIALS[code]);
    });
  }
});
