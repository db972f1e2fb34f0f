/** How a doubt was ended and what disagrees, each on one line with who and when. */
import type { AuditContradiction, AuditResolution } from "../store/audit-schema-resolution.ts";
import { formatMoment } from "./moment.ts";

/** `accepted, by ana at 02:14:07 from bank, reference ch_1: on the statement` */
export function resolvedByWords(
  { kind, says, source, by_role, at, reason, reference }: AuditResolution,
  now: Date,
): string {
  const what = { evidence: says, reached: "reached by an unknown hand", risk_accepted: "risk accepted" }[kind];
  const named = reference === null ? "" : `, reference ${reference}`;
  return `${what}, by ${by_role} at ${formatMoment(at, now)} from ${source}${named}${reason === null ? "" : `: ${reason}`}`;
}

/** `bank says no_effect against accepted at 02:14:07, 4000 usd_cents at stake` */
export function contradictionWords(contradiction: AuditContradiction, now: Date): string {
  const { source, says, recorded, at, amount_at_stake, unit } = contradiction;
  const stake = unit === null ? "" : `, ${amount_at_stake} ${unit} at stake`;
  return `${source} says ${says} against ${recorded} at ${formatMoment(at, now)}${stake}`;
}
