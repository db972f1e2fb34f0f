/**
 * Whether an effect may be resubmitted (protocol, section 7): the same key and bytes once more, to learn what became of
 * them. It may be what makes the effect happen, so it wants the authority that an admission wants, and more.
 */
import type { Idempotency } from "./contract.ts";
import type { DenialCode } from "./denial.ts";
import type { AdmissionFacts, EffectFacts } from "./facts.ts";
import { REASONS } from "./reasons.ts";
import { Room } from "./room.ts";

/** What is known of the first dispatch. */
export interface Dispatched {
  readonly idempotency: Idempotency | null;
  readonly dispatchEnded: boolean;
  /** From the admission until now, by the database's clock. */
  readonly sinceAdmissionMs: number;
  /** True where the ledger's recovery epoch is still the one of the request. */
  readonly sameEpoch: boolean;
}

/** Of the recipient's retention only so much is used: its clock and ours differ, and a request takes its time. */
const RETENTION_USED = 0.9;

/** Spent or waited for by its own admission already. */
const OF_THE_ADMISSION: ReadonlySet<DenialCode> = new Set(["policy_exhausted", "not_yet"]);

/** Checks 1 to 4 and 8 of an admission. */
const CHECKED = new Set(["binding", "operation", "task", "policy", "ledger"]);

/** Why an effect may not be resubmitted, or null. A word of its own, or the code of the denial that would stand. */
export function whyNotResubmitted(facts: AdmissionFacts, effect: EffectFacts, dispatched: Dispatched): string | null {
  const { idempotency } = dispatched;
  if (!idempotency) return "not_idempotent";
  if (!dispatched.dispatchEnded) return "dispatch_may_run";
  if (!dispatched.sameEpoch) return "after_recovery";
  if (effect.implementation !== effect.running.implementation) return "another_implementation";
  if (dispatched.sinceAdmissionMs >= idempotency.retentionMs * RETENTION_USED) return "retention_passed";
  const room = new Room(facts);
  for (const [check, find] of REASONS) {
    const denial = CHECKED.has(check) ? find(facts, effect, room) : null;
    if (denial && !OF_THE_ADMISSION.has(denial.code) && denial.detail.changed !== "stale") return denial.code;
  }
  return null;
}
