/** Reads of what is owed to recipients: cleanups that are due and not done. Kysely over the audit views; it decides nothing. */
import { sql } from "kysely";
import type { Audit } from "./audit.ts";
import type { AuditObligation } from "./audit-schema.ts";

/** Cleanups that are due and not done. */
export interface OwedCleanups {
  readonly owed: bigint;
  /** Of these, what nobody tries any more. */
  readonly given_up: bigint;
  readonly oldest: Date | null;
}

export async function countOwed(audit: Audit): Promise<OwedCleanups> {
  return audit
    .selectFrom("audit.obligations")
    .select((eb) => eb.fn.countAll<bigint>().as("owed"))
    .select(sql<bigint>`count(given_up_at)`.as("given_up"))
    .select(sql<Date | null>`min(due_at)`.as("oldest"))
    .where("closed_at", "is", null)
    .where("due_at", "is not", null)
    .executeTakeFirstOrThrow();
}

/** The cleanup that an effect owes or owed; null where it never did. */
export async function readObligation(audit: Audit, effectId: string): Promise<AuditObligation | null> {
  const found = await audit
    .selectFrom("audit.obligations")
    .selectAll()
    .where("effect_id", "=", effectId)
    .executeTakeFirst();
  return found ?? null;
}
