/** Where an effect stands, in the words of the protocol. `admitted` is never said without whether it is unresolved. */
import type { AuditEffect } from "../store/audit-schema.ts";
import { formatAge, formatMoment } from "./moment.ts";

/** What the line is made of. */
export type Stands = Pick<
  AuditEffect,
  | "state"
  | "unresolved"
  | "unresolved_since"
  | "waiting_for"
  | "denial_code"
  | "declined_reason"
  | "not_before"
  | "dispatch_deadline"
  | "outcome_via"
  | "resolution"
  | "resolution_says"
>;

/** One line. `now` is the database's clock, for ages. */
export function standingWords(effect: Stands, now: Date): string {
  const since = effect.unresolved_since;
  const doubt = since ? `unresolved since ${formatMoment(since, now)} (${formatAge(since, now)})` : "unresolved";
  switch (effect.state) {
    case "requested":
    case "prepared":
      return `${effect.state}${waiting(effect, now)}`;
    case "declined":
      return `declined, ${effect.declined_reason}: ${effect.denial_code}`;
    case "admitted":
      if (effect.unresolved) return `admitted, ${doubt}`;
      return `admitted, may be being dispatched until ${effect.dispatch_deadline ? formatMoment(effect.dispatch_deadline, now) : "its deadline"}`;
    case "accepted":
    case "failed":
    case "no_effect":
      return `${effect.state} via ${effect.outcome_via}`;
    case "uncertain":
      return `uncertain, ${effect.unresolved ? doubt : resolutionWords(effect)}`;
  }
}

/** What ended the doubt. An accepted risk and a state that was reached say nothing about what we did. */
export function resolutionWords({
  resolution,
  resolution_says,
}: Pick<Stands, "resolution" | "resolution_says">): string {
  if (resolution === "evidence") return `resolved as ${resolution_says}, by evidence`;
  return resolution === "reached" ? "resolved: what was wanted is there, by an unknown hand" : "its risk accepted";
}

function waiting({ waiting_for, denial_code, not_before }: Stands, now: Date): string {
  if (waiting_for !== null) return `, waits for ${waiting_for} (${denial_code})`;
  return not_before !== null && not_before > now ? `, not before ${formatMoment(not_before, now)}` : "";
}

/** `4000 usd_cents, 1 mails`: amounts as stored, never guessed into a currency. */
export function amountWords(amounts: Readonly<Record<string, bigint | string>>): string {
  return Object.entries(amounts)
    .map(([unit, amount]) => `${amount} ${unit}`)
    .join(", ");
}
