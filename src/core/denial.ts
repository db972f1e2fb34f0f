/**
 * Why admission says no: one closed list, in order of precedence, so that the same request in the same state gets the
 * same code (protocol, section 5). The database holds the same list with a hint for each (effects_ledger.denial).
 */

/** What a transient denial waits for. */
export type WaitingFor =
  | "recovery"
  | "worker"
  | "paused"
  | "time"
  | "approval"
  | "budget"
  | "doubt"
  | "lane"
  | "preparation";

/** Each code with what is waited for, or `null` where the denial is final. */
export const DENIALS = {
  permit_consumed: null,
  recovery_unacknowledged: "recovery",
  violation_unacknowledged: "recovery",
  ledger_standby: "recovery",
  durability_missing: "recovery",
  binding_expired: null,
  binding_mismatch: null,
  payload_mismatch: null,
  invocation_ended: null,
  operation_withdrawn: null,
  operation_not_allowed: null,
  unsupported: null,
  implementation_changed: "worker",
  binding_unstable: null,
  task_revoked: null,
  task_ended: null,
  task_expired: null,
  actor_revoked: null,
  paused: "paused",
  not_yet: "time",
  policy_missing: null,
  policy_revoked: null,
  policy_expired: null,
  policy_exhausted: null,
  approval_required: "approval",
  approval_refused: null,
  predecessor_accepted: null,
  predecessor_contradicted: null,
  budget_missing: null,
  budget_exceeded: null,
  budget_held: "budget",
  doubt_limit: "doubt",
  lane_busy: "lane",
} as const satisfies Record<string, WaitingFor | null>;

export type DenialCode = keyof typeof DENIALS;

/**
 * How long an effect waits before it is looked at again, in milliseconds. Nothing wakes it earlier yet, so the numbers
 * weigh a person's patience against the work of asking in vain.
 */
export const RETRY_AFTER_MS: Readonly<Record<WaitingFor, number>> = {
  recovery: 5_000,
  worker: 0, // prepared again at once, by whoever runs now
  paused: 5_000,
  time: 0, // its job runs at the moment asked for
  approval: 60_000, // a submission looks again at once
  budget: 2_000, // a settlement frees it, usually within a dispatch
  doubt: 5_000,
  lane: 2_000,
  preparation: 5_000,
};
