/**
 * Reads of policies, approvers, approvals and strictness for the command line: Kysely over the audit views, every list bounded. It
 * never writes and decides nothing.
 */
import { sql } from "kysely";
import type { Audit } from "./audit.ts";
import type { AuditApproval, AuditApprover, AuditPolicy } from "./audit-schema-policy.ts";

export interface PolicyLine extends AuditPolicy {
  /** What one effect may cost, per unit, as decimal strings. */
  readonly costs: Readonly<Record<string, string>>;
  readonly approvers: readonly string[];
  readonly prepared_within_ms: number | null;
}

export interface LedgerRules {
  readonly ledger_id: string;
  readonly name: string;
  readonly recovery_epoch: string;
  readonly founded_at: Date;
  /** Every operation is protected. */
  readonly strict: boolean;
  /** What the names of its roles begin with; null where it has none. */
  readonly role_prefix: string | null;
  readonly standing: "ok" | "standby" | "unacknowledged";
  readonly durability_gap: string | null;
}

/** Which ledger this is, and what its owner decided about it as a whole. */
export async function readLedgerRules(audit: Audit): Promise<LedgerRules> {
  return audit
    .selectFrom("audit.ledger")
    .select([
      "ledger_id",
      "name",
      "recovery_epoch",
      "founded_at",
      "strict",
      "role_prefix",
      "standing",
      "durability_gap",
    ])
    .executeTakeFirstOrThrow();
}

/** The owner's policies, live ones first, then the newest. */
export async function listPolicies(audit: Audit, limit: number): Promise<readonly PolicyLine[]> {
  return audit
    .selectFrom("audit.policies")
    .select(["name", "operation", "version", "task_path", "actor", "target", "target_match", "admissions_max"])
    .select(["admissions_used", "open_max", "open_now", "approvals_needed", "requester_excluded", "expires_at"])
    .select(["added_by", "added_at", "revoked_at", "precondition_enforced"])
    .select([
      sql<Record<string, string>>`(select coalesce(json_object_agg(c.unit, c.amount::text order by c.unit), '{}')
        from audit.policy_costs c where c.policy = audit.policies.name)`.as("costs"),
      sql<readonly string[]>`array(select a.approver from audit.policy_approvers a
        where a.policy = audit.policies.name order by a.approver)`.as("approvers"),
      sql<number | null>`(extract(epoch from prepared_within) * 1000)::float8`.as("prepared_within_ms"),
    ])
    .where("operation", "is not", null)
    .orderBy(sql`revoked_at is not null`)
    .orderBy("added_at", "desc")
    .orderBy("name")
    .limit(limit)
    .execute();
}

/** Keys by which people approve: live ones first, by name. */
export async function listApprovers(audit: Audit, limit: number): Promise<readonly AuditApprover[]> {
  return audit
    .selectFrom("audit.approvers")
    .selectAll()
    .orderBy(sql`revoked_at is not null`)
    .orderBy("approver")
    .orderBy("key_id")
    .limit(limit)
    .execute();
}

/** Approvals and refusals of one effect, in order. */
export async function listApprovals(audit: Audit, effectId: string, limit: number): Promise<readonly AuditApproval[]> {
  return audit
    .selectFrom("audit.approvals")
    .selectAll()
    .where("effect_id", "=", effectId)
    .orderBy("at")
    .limit(limit)
    .execute();
}

/** The ids that end like this: of approvals, or of keys. At most two, which is one too many. */
export async function idsThatEnd(audit: Audit, kind: "approval" | "key", digits: string): Promise<readonly string[]> {
  const rows =
    kind === "approval"
      ? await audit
          .selectFrom("audit.approvals")
          .select("approval_id as id")
          .where(sql<string>`right(approval_id::text, 8)`, "=", digits)
          .limit(2)
          .execute()
      : await audit
          .selectFrom("audit.approvers")
          .select("key_id as id")
          .where(sql<string>`right(key_id, 8)`, "=", digits)
          .limit(2)
          .execute();
  return rows.map(({ id }) => id);
}
