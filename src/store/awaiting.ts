/**
 * What awaits approval, as an approver reads it: the view effects.awaiting_approval and the statement to sign. An approver
 * has no schema audit, so nothing here needs it. Reads only.
 */
import { sql } from "kysely";
import type { Audit } from "./audit.ts";
import type { AwaitingApproval, BoundBytes } from "./audit-schema-policy.ts";

const LISTED = [
  "effect_id",
  "name",
  "operation",
  "version",
  "task_path",
  "actor",
  "requested_by",
  "requested_at",
  "account",
  "target",
  "preview",
  "maximum_cost",
  "digest",
  "expires_at",
  "policy",
  "approvals_needed",
  "approvals_submitted",
  "approvers",
  "keys",
] as const satisfies readonly (keyof AwaitingApproval)[];

/** What awaits approval, what expires first first. */
export async function listAwaiting(audit: Audit, limit: number): Promise<readonly AwaitingApproval[]> {
  return audit
    .selectFrom("effects.awaiting_approval")
    .select(LISTED)
    .orderBy("expires_at")
    .orderBy("effect_id")
    .limit(limit)
    .execute();
}

/** Those that go by an id, the last eight digits of one, a name, or `task:name`. */
export async function findAwaiting(audit: Audit, given: string, limit: number): Promise<readonly AwaitingApproval[]> {
  return audit
    .selectFrom("effects.awaiting_approval")
    .select(LISTED)
    .where((eb) =>
      eb.or([
        eb(sql<string>`effect_id::text`, "=", given.toLowerCase()),
        eb(sql<string>`right(effect_id::text, 8)`, "=", given.toLowerCase()),
        eb("name", "=", given),
        sql<boolean>`right(' > ' || task_path || ':' || name, length(${given}::text) + 3) = ' > ' || ${given}::text`,
      ]),
    )
    .orderBy("requested_at", "desc")
    .limit(limit)
    .execute();
}

/** The statement about an effect, and the bound bytes beside it, as of one moment; undefined where none is awaited. */
export async function readStatementToSign(
  audit: Audit,
  effectId: string,
): Promise<(AwaitingApproval & BoundBytes & { readonly statement: Buffer }) | undefined> {
  return audit
    .transaction()
    .setIsolationLevel("repeatable read")
    .setAccessMode("read only")
    .execute((transaction) =>
      transaction
        .selectFrom("effects.awaiting_approval")
        .select(LISTED)
        .select(["binding_version", "binding"])
        .select(sql<Buffer>`effects.approval_statement(effect_id)`.as("statement"))
        .where("effect_id", "=", effectId)
        .executeTakeFirst(),
    );
}
