/** Where an effect stands, in the words of the protocol. `admitted` is never said without whether it is unresolved. */
import type { AuditEffect } from "../store/audit-schema.ts";
import { formatAge, formatMoment } from "./moment.ts";

/** One line. `now` is the database's clock, for ages. */
export function standingWords(effect: AuditEffect, now: Date): string {
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
      return effect.unresolved ? `uncertain, ${doubt}` : `uncertain, resolved: ${effect.resolution}`;
  }
}

function waiting({ waiting_for, denial_code, not_before }: AuditEffect, now: Date): string {
  if (waiting_for !== null) return `, waits for ${waiting_for} (${denial_code})`;
  return not_before !== null && not_before > now ? `, not before ${formatMoment(not_before, now)}` : "";
}

/** `4000 usd_cents, 1 mails`: amounts as stored, never guessed into a currency. */
export function amountWords(amounts: Readonly<Record<string, bigint | string>>): string {
  return Object.entries(amounts)
    .map(([unit, amount]) => `${amount} ${unit}`)
    .join(", ");
}
