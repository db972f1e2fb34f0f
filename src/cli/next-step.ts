/** What can be done next about an effect in doubt: by what is on record about it, without asking anybody. */
import type { Doubt } from "../store/audit-unresolved.ts";
import { formatMoment } from "./moment.ts";
import { shortId } from "./short-id.ts";

/** The commands, as they go behind `pg-effects`, and when. */
export function nextStep(doubt: Doubt, now: Date): string {
  const { asked, fence, state } = doubt;
  if (doubt.admitted_under === "inline") return "its host asks, or resolve";
  if (asked?.report === null && asked.may_answer)
    return `it is being asked: reconciliation ${shortId(asked.reconciliation_id)}`;
  if (state === "uncertain") {
    const again = `reconcile --include-uncertain${fence ? " --allow-fence" : ""}`;
    return fence ? `${again}, resolve, or accept-risk` : `resolve, accept-risk, or ${again}`;
  }
  if (asked === null || asked.report === null || asked.report === "could_not_ask") return "reconcile";
  if (asked.conclusive_at !== null) {
    const from = new Date(asked.conclusive_at);
    return from > now
      ? `reconcile from ${formatMoment(from, now)} on, when absence is conclusive`
      : "reconcile: absence is conclusive by now";
  }
  // It was asked, and what was said settles nothing: the same lookup would say the same.
  if (fence) return "reconcile --allow-fence, resolve, or accept-risk";
  return doubt.resubmission ? "reconcile --allow-resubmit, resolve, or accept-risk" : "resolve, or accept-risk";
}
