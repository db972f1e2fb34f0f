/**
 * Reads of reconciliations that were asked for earlier: which there are, and all that one found. Kysely over the audit views,
 * every list bounded. It never writes.
 */
import { sql } from "kysely";
import type { Audit } from "./audit.ts";
import type { AuditInspection, AuditReconciliation } from "./audit-schema.ts";

/** Reconciliations, the newest first. */
export async function listReconciliations(
  audit: Audit,
  { since, limit }: { readonly since: Date | undefined; readonly limit: number },
): Promise<readonly AuditReconciliation[]> {
  return audit
    .selectFrom("audit.reconciliations")
    .selectAll()
    .$if(since !== undefined, (query) => query.where("requested_at", ">=", since ?? new Date(0)))
    .orderBy("requested_at", "desc")
    .limit(limit)
    .execute();
}

/** The ids that end like this; at most two, which is one too many. Without digits the newest one. */
export async function findReconciliations(audit: Audit, digits: string | null): Promise<readonly string[]> {
  const rows = await audit
    .selectFrom("audit.reconciliations")
    .select("reconciliation_id")
    .$if(digits !== null, (query) => query.where(sql<string>`right(reconciliation_id::text, 8)`, "=", digits ?? ""))
    .orderBy("requested_at", "desc")
    .limit(digits === null ? 1 : 2)
    .execute();
  return rows.map((row) => row.reconciliation_id);
}

/** One inspection, with what its effect is called. */
export type InspectionLine = AuditInspection & { readonly name: string | null; readonly operation: string };

/** A reconciliation's inspections in the order in which they began. */
export async function listInspections(audit: Audit, id: string, limit: number): Promise<readonly InspectionLine[]> {
  return audit
    .selectFrom("audit.inspections as i")
    .innerJoin("audit.effects as e", "e.effect_id", "i.effect_id")
    .selectAll("i")
    .select(["e.name", "e.operation"])
    .where("i.reconciliation_id", "=", id)
    .orderBy("i.begun_at")
    .limit(limit)
    .execute();
}

/** An effect that was in scope and that nobody asked about. */
export interface NotReached {
  readonly effect_id: string;
  readonly name: string | null;
  readonly operation: string;
  readonly state: string;
  readonly unresolved: boolean;
}

export async function listNotReached(audit: Audit, id: string, limit: number): Promise<readonly NotReached[]> {
  return audit
    .selectFrom("audit.reconciliation_effects as x")
    .innerJoin("audit.effects as e", "e.effect_id", "x.effect_id")
    .select(["e.effect_id", "e.name", "e.operation", "e.state", "e.unresolved"])
    .where("x.reconciliation_id", "=", id)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("audit.inspections as i")
            .select("i.kind")
            .whereRef("i.reconciliation_id", "=", "x.reconciliation_id")
            .whereRef("i.effect_id", "=", "x.effect_id"),
        ),
      ),
    )
    .orderBy("e.requested_at")
    .limit(limit)
    .execute();
}
