/**
 * Reads for whoever has effects tried again: what was declined and nobody has tried again. Kysely over the audit views, every
 * list bounded. It never writes and decides nothing.
 */
import { sql } from "kysely";
import type { DeclinedReason } from "../core/state.ts";
import type { Audit } from "./audit.ts";
import type { AuditEffect } from "./audit-schema.ts";

/** An effect that was declined. */
export type DeclinedEffect = Pick<AuditEffect, "effect_id" | "name" | "operation" | "task_name" | "denial_code"> & {
  readonly declined_at: Date;
};

export interface DeclinedFilter {
  readonly reason: DeclinedReason;
  readonly since: Date;
  readonly operation?: string | undefined;
  readonly limit: number;
}

/**
 * Effects declined for a reason since a moment, the oldest first, without those that were followed, whatever became of that:
 * of a line of followers the last one is meant.
 */
export async function listDeclined(
  audit: Audit,
  { reason, since, operation, limit }: DeclinedFilter,
): Promise<readonly DeclinedEffect[]> {
  return audit
    .selectFrom("audit.events as v")
    .innerJoin("audit.effects as e", "e.effect_id", "v.effect_id")
    .select(["e.effect_id", "e.name", "e.operation", "e.task_name", "e.denial_code", "v.at as declined_at"])
    .where("v.event", "=", "declined")
    .where("v.at", ">=", since)
    .where("e.state", "=", "declined")
    .where("e.declined_reason", "=", reason)
    .$if(operation !== undefined, (query) => query.where("e.operation", "=", operation ?? ""))
    .where(sql<boolean>`not exists (select from audit.effects f where f.follows = e.effect_id)`)
    .orderBy("v.at")
    .orderBy("e.effect_id")
    .limit(limit)
    .execute();
}
