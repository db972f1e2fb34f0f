/** A policy in words: what it covers, what it wants, what was used of it, and whether it stands. */
import type { PolicyLine } from "../store/audit-policy.ts";
import { formatDuration } from "./duration.ts";
import { formatMoment } from "./moment.ts";
import { amountWords } from "./standing-words.ts";

/** `charge_card 1 under shop, target begins cards/, at most 4000 usd_cents` */
export function coversWords(policy: PolicyLine): string {
  const { operation, version, task_path, actor, target, target_match, costs } = policy;
  return [
    `${operation} ${version} under ${task_path?.split(" > ").at(-1)}`,
    actor !== null && `by ${actor}`,
    target !== null && `target ${target_match === "prefix" ? "begins " : ""}${target}`,
    Object.keys(costs).length === 0 ? "at no cost" : `at most ${amountWords(costs)}`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** `2 approvals of ana, ben, cyd` */
export function wantsWords(policy: PolicyLine): string {
  const { approvals_needed, approvers, requester_excluded, precondition_enforced, prepared_within_ms } = policy;
  return [
    approvals_needed === 0
      ? "nothing: automatic"
      : `${approvals_needed} approval${approvals_needed > 1 ? "s" : ""} of ${approvers.join(", ")}`,
    approvals_needed > 0 && !requester_excluded && "also the requester's",
    precondition_enforced && "an enforced precondition",
    prepared_within_ms !== null && `prepared within ${formatDuration(prepared_within_ms)}`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** `812 of 1000 admissions, 3 of 20 open` */
export function usedWords({ admissions_max, admissions_used, open_max, open_now }: PolicyLine): string {
  const of = (max: bigint | null) => (max === null ? "" : ` of ${max}`);
  return `${admissions_used}${of(admissions_max)} admissions, ${open_now}${of(open_max)} open`;
}

export function standsWords({ revoked_at, expires_at, added_at, added_by }: PolicyLine, now: Date): string {
  if (revoked_at !== null) return `revoked ${formatMoment(revoked_at, now)}`;
  if (expires_at !== null && expires_at <= now) return `expired ${formatMoment(expires_at, now)}`;
  const until = expires_at === null ? "" : `, until ${formatMoment(expires_at, now)}`;
  return `added ${formatMoment(added_at, now)} by ${added_by}${until}`;
}
