/** Reads of one reconciliation for the command line: how far it got, what was found, what still stands. It never writes. */
import { sql } from "kysely";
import type { Audit } from "./audit.ts";
import type { AuditInspection, AuditReconciliation } from "./audit-schema.ts";

/** How far a reconciliation got. */
export async function readReconciliation(audit: Audit, id: string): Promise<AuditReconciliation> {
  return audit
    .selectFrom("audit.reconciliations")
    .selectAll()
    .where("reconciliation_id", "=", id)
    .executeTakeFirstOrThrow();
}

export type Inspected = Omit<AuditInspection, "evidence" | "implementation" | "requested_by" | "deadline">;

/** Inspections of a reconciliation that were answered after a moment, oldest first. */
export async function readInspections(audit: Audit, id: string, after: Date): Promise<readonly Inspected[]> {
  return audit
    .selectFrom("audit.inspections")
    .select(["reconciliation_id", "effect_id", "kind", "begun_at", "at", "report", "recorded", "reason"])
    .select(["conclusive_at", "evidence_digest", "took_ms", "worker"])
    .where("reconciliation_id", "=", id)
    .where("at", ">", after)
    .orderBy("at")
    .execute();
}

/** How many effects of the scope each report ended for, counting each effect by its last inspection. */
export interface FoundCount {
  readonly operation: string;
  readonly report: string;
  readonly recorded: string | null;
  readonly effects: bigint;
  /** From when on the same report would be conclusive for all of them; null where it never is. */
  readonly conclusive_at: Date | null;
}

export async function countFound(audit: Audit, id: string): Promise<readonly FoundCount[]> {
  const last = audit
    .selectFrom("audit.inspections as i")
    .innerJoin("audit.reconciliation_effects as x", (join) =>
      join.onRef("x.reconciliation_id", "=", "i.reconciliation_id").onRef("x.effect_id", "=", "i.effect_id"),
    )
    .where("i.reconciliation_id", "=", id)
    .distinctOn("i.effect_id")
    .select(["x.operation", sql<string>`coalesce(i.report, 'no answer')`.as("report"), "i.recorded", "i.conclusive_at"])
    .orderBy("i.effect_id")
    .orderBy("i.begun_at", "desc");
  return audit
    .selectFrom(last.as("last"))
    .select(["operation", "report", "recorded"])
    .select((eb) => [eb.fn.countAll<bigint>().as("effects"), eb.fn.max("conclusive_at").as("conclusive_at")])
    .groupBy(["operation", "report", "recorded"])
    .orderBy("operation")
    .orderBy("effects", "desc")
    .execute();
}

/** The operations in scope. */
export async function scopeOperations(audit: Audit, id: string): Promise<readonly string[]> {
  const rows = await audit
    .selectFrom("audit.reconciliation_effects")
    .select("operation")
    .distinct()
    .where("reconciliation_id", "=", id)
    .orderBy("operation")
    .execute();
  return rows.map(({ operation }) => operation);
}

export interface LeftOpen {
  readonly effect_id: string;
  readonly name: string | null;
  readonly operation: string;
  readonly state: string;
  readonly since: Date | null;
  readonly inspected: boolean;
}

/** What of the scope is unresolved at this moment, oldest first, and how many, and how many of them were not asked about. */
export async function readLeftOpen(
  audit: Audit,
  id: string,
  limit: number,
): Promise<{ readonly effects: readonly LeftOpen[]; readonly count: bigint; readonly notAsked: bigint }> {
  const asked = sql<boolean>`exists (select from audit.inspections i
    where i.reconciliation_id = ${id} and i.effect_id = e.effect_id)`;
  const open = audit
    .selectFrom("audit.reconciliation_effects as x")
    .innerJoin("audit.effects as e", "e.effect_id", "x.effect_id")
    .where("x.reconciliation_id", "=", id)
    .where("e.unresolved", "=", true);
  const effects = await open
    .select(["e.effect_id", "e.name", "e.operation", "e.state", "e.unresolved_since as since", asked.as("inspected")])
    .orderBy("e.unresolved_since")
    .limit(limit)
    .execute();
  const { count, notAsked } = await open
    .select((eb) => eb.fn.countAll<bigint>().as("count"))
    .select(sql<bigint>`count(*) filter (where not ${asked})`.as("notAsked"))
    .executeTakeFirstOrThrow();
  return { effects, count, notAsked };
}

/** How many effects have been recorded about so far, by what was recorded. */
export async function countRecorded(
  audit: Audit,
  id: string,
): Promise<readonly { readonly recorded: string; readonly effects: bigint }[]> {
  return audit
    .selectFrom("audit.inspections")
    .select(sql<string>`recorded`.as("recorded"))
    .select(sql<bigint>`count(distinct effect_id)`.as("effects"))
    .where("reconciliation_id", "=", id)
    .where("recorded", "is not", null)
    .groupBy("recorded")
    .orderBy("recorded")
    .execute();
}
