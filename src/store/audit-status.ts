/**
 * Reads for the one screen: what waits, is in flight or is in doubt, by operation, and what ended lately. Kysely over the
 * audit views. It never writes and judges nothing.
 */
import { sql } from "kysely";
import type { DeclinedReason, Outcome } from "../core/state.ts";
import type { Audit } from "./audit.ts";
import type { AuditPause } from "./audit-schema.ts";

/** Effects of one operation that are not settled, by what they are at. */
export interface LiveCount {
  readonly operation: string;
  /** `in flight`, `unresolved`, or what is waited for: a word of `waiting_for`, or `queue`: its turn. */
  readonly at: string;
  readonly effects: bigint;
  /** Since when the oldest of them waits, or is unresolved; of what is in flight, when it was requested. */
  readonly oldest: Date;
}

export async function countLive(audit: Audit): Promise<readonly LiveCount[]> {
  const at = sql<string>`case when unresolved then 'unresolved' when state = 'admitted' then 'in flight'
    else coalesce(waiting_for, case when not_before > clock_timestamp() then 'time' else 'queue' end) end`;
  return audit
    .selectFrom("audit.live")
    .select(["operation", at.as("at")])
    .select((eb) => eb.fn.countAll<bigint>().as("effects"))
    .select(sql<Date>`min(coalesce(unresolved_since, requested_at))`.as("oldest"))
    .groupBy(["operation", at])
    .orderBy("operation")
    .orderBy("effects", "desc")
    .execute();
}

/** What ended since a moment. */
export interface EndedCounts {
  readonly outcomes: readonly { readonly outcome: Outcome; readonly effects: bigint }[];
  readonly declined: readonly { readonly reason: DeclinedReason; readonly effects: bigint }[];
}

export async function countEnded(audit: Audit, since: Date): Promise<EndedCounts> {
  const outcomes = await audit
    .selectFrom("audit.outcomes")
    .select("outcome")
    .select((eb) => eb.fn.countAll<bigint>().as("effects"))
    .where("at", ">=", since)
    .groupBy("outcome")
    .execute();
  const reason = sql<DeclinedReason>`detail ->> 'declined_reason'`;
  const declined = await audit
    .selectFrom("audit.events")
    .select(reason.as("reason"))
    .select((eb) => eb.fn.countAll<bigint>().as("effects"))
    .where("event", "=", "declined")
    .where("at", ">=", since)
    .groupBy(reason)
    .orderBy("effects", "desc")
    .execute();
  return { outcomes, declined };
}

/** How many operations there are by name, and how many of them are protected; on a strict ledger all. */
export async function countProtected(audit: Audit): Promise<{ readonly protected: bigint; readonly of: bigint }> {
  return audit
    .selectFrom("audit.operations as o")
    .select(sql<bigint>`count(distinct o.operation)`.as("of"))
    .select(
      sql<bigint>`count(distinct o.operation) filter
        (where o.protected or (select l.strict from audit.ledger l))`.as("protected"),
    )
    .executeTakeFirstOrThrow();
}

/** The pauses of now of everything and of whole operations. */
export async function readPauses(audit: Audit): Promise<readonly AuditPause[]> {
  return audit.selectFrom("audit.pauses").selectAll().where("scope", "in", ["all", "operation"]).execute();
}
