/**
 * The life of an effect (protocol, section 2): its states and every move between them. The database holds the same table
 * (effects_ledger.may_move) and refuses any other move.
 */

/** Every state of an effect. */
export const STATES = [
  "requested",
  "prepared",
  "declined",
  "admitted",
  "accepted",
  "failed",
  "no_effect",
  "uncertain",
] as const;
export type State = (typeof STATES)[number];

/** What can be recorded first about an admitted effect. Never rewritten. */
export const OUTCOMES = ["accepted", "failed", "no_effect", "uncertain"] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** Why an effect was declined. */
export const DECLINED_REASONS = ["invalid", "denied", "refused", "expired", "revoked", "cancelled"] as const;
export type DeclinedReason = (typeof DECLINED_REASONS)[number];

/** `prepared` to `prepared` is a new binding beside the old one. */
export const TRANSITIONS: readonly (readonly [from: State, to: State])[] = [
  ["requested", "prepared"],
  ["requested", "declined"],
  ["prepared", "prepared"],
  ["prepared", "admitted"],
  ["prepared", "declined"],
  ["admitted", "accepted"],
  ["admitted", "failed"],
  ["admitted", "no_effect"],
  ["admitted", "uncertain"],
];

/** True where the design has this move. */
export function mayMove(from: State, to: State): boolean {
  return TRANSITIONS.some(([start, end]) => start === from && end === to);
}

/** True where no move leads on: the effect is declined or has its outcome. */
export function isFinal(state: State): boolean {
  return !TRANSITIONS.some(([start]) => start === state);
}
