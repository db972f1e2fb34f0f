/** When the same key and bytes may go out once more: every condition of protocol section 7, each alone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AdmissionFacts } from "../../src/core/facts.ts";
import { type Dispatched, whyNotResubmitted } from "../../src/core/resubmission.ts";
import { EFFECT, FACTS, NOW_MS, protectedUnder, withEffect, withTask } from "./admission-facts.ts";

const ADMITTED = withEffect(FACTS, { state: "admitted" });
const FIRST: Dispatched = {
  idempotency: { scope: "account", retentionMs: 100_000, mismatch: "refused", concurrent: "safe", failure: "saved" },
  dispatchEnded: true,
  sinceAdmissionMs: 10_000,
  sameEpoch: true,
};
const why = (facts: AdmissionFacts = ADMITTED, first: Partial<Dispatched> = {}) =>
  whyNotResubmitted(facts, facts.effects[0] ?? EFFECT, { ...FIRST, ...first });

test("where all conditions hold, it may", () => assert.equal(why(), null));

const REFUSED: readonly (readonly [what: string, given: () => string | null, code: string])[] = [
  ["a contract without idempotency", () => why(ADMITTED, { idempotency: null }), "not_idempotent"],
  ["a dispatch whose end is not on record", () => why(ADMITTED, { dispatchEnded: false }), "dispatch_may_run"],
  ["a recovery since the request", () => why(ADMITTED, { sameEpoch: false }), "after_recovery"],
  ["a retention that is nearly over", () => why(ADMITTED, { sinceAdmissionMs: 90_000 }), "retention_passed"],
  ["another implementation", () => why(withEffect(ADMITTED, { implementation: "old" })), "another_implementation"],
  ["an expired binding", () => why(withEffect(ADMITTED, { expiresAtMs: NOW_MS })), "binding_expired"],
  [
    "bytes that are not the digested ones",
    () => why(withEffect(ADMITTED, { payloadMatch: false })),
    "payload_mismatch",
  ],
  ["a revoked task", () => why(withTask(ADMITTED, "root", { revoked: true })), "task_revoked"],
  [
    "a revoked actor",
    () => why({ ...ADMITTED, actors: new Map([["shop", { revoked: true, entitled: true }]]) }),
    "actor_revoked",
  ],
  [
    "a withdrawn operation",
    () => why(withEffect(ADMITTED, { operation: { ...EFFECT.operation, withdrawn: true } })),
    "operation_withdrawn",
  ],
  ["a pause", () => why({ ...ADMITTED, pauses: [{ scope: "all", target: "", reason: "INC-91" }] }), "paused"],
  ["a revoked policy", () => why(protectedUnder(ADMITTED, { revoked: true })), "policy_revoked"],
  ["approvals that are gone", () => why(protectedUnder(ADMITTED, { approvalsNeeded: 1 })), "approval_required"],
  ["a closed ledger", () => why({ ...ADMITTED, identity: "unacknowledged" }), "recovery_unacknowledged"],
];
for (const [what, given, code] of REFUSED) {
  test(`${what} forbids it: ${code}`, () => assert.equal(given(), code));
}

test("what its own admission used up does not: admissions, budgets, lanes and the age of its binding", () => {
  const used = protectedUnder(ADMITTED, {
    admissionsMax: 1n,
    admissionsUsed: 1n,
    openMax: 1n,
    openNow: 1n,
    preparedWithinMs: 1,
  });
  assert.equal(why({ ...used, budgets: [], busyLanes: new Set(["charge_card 42"]) }), null);
});
