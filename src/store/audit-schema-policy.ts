/**
 * The views about policies and approvals, as Kysely types them: column for column what migrations/0014_audit.sql and
 * 0016_approval.sql create. Types only.
 */

export interface AuditPolicy {
  readonly name: string;
  /** Null for the built-in policy `ordinary`, as are version and task_path. */
  readonly operation: string | null;
  readonly version: number | null;
  readonly task_path: string | null;
  readonly actor: string | null;
  readonly target: string | null;
  readonly target_match: "exact" | "prefix" | null;
  readonly admissions_max: bigint | null;
  readonly admissions_used: bigint;
  readonly open_max: bigint | null;
  readonly open_now: bigint;
  readonly approvals_needed: number;
  readonly requester_excluded: boolean;
  readonly expires_at: Date | null;
  readonly added_by: string;
  readonly added_at: Date;
  readonly revoked_at: Date | null;
  readonly precondition_enforced: boolean;
}

export interface AuditApprover {
  readonly key_id: string;
  readonly approver: string;
  /** 64 hex digits. */
  readonly public_key: string;
  readonly added_by: string;
  readonly added_at: Date;
  readonly revoked_at: Date | null;
}

/** audit.approvals: refusals have neither key nor statement. */
export interface AuditApproval {
  readonly approval_id: string;
  readonly effect_id: string;
  readonly verdict: "approved" | "refused";
  readonly approver: string;
  readonly key_id: string | null;
  readonly digest: string;
  readonly expires_at: Date | null;
  readonly at: Date;
  readonly statement: string | null;
  readonly signature: string | null;
  readonly counted: boolean;
  readonly counted_not: string | null;
  readonly submitted_by: string;
  readonly reason: string | null;
  readonly revoked_at: Date | null;
}

/** A key that may sign for an effect's policy. */
export interface SigningKey {
  readonly key_id: string;
  readonly approver: string;
  /** 64 hex digits. */
  readonly public_key: string;
}

export interface AwaitingApproval {
  readonly effect_id: string;
  readonly name: string | null;
  readonly operation: string;
  readonly version: number;
  readonly task_path: string;
  readonly actor: string;
  readonly requested_by: string;
  readonly requested_at: Date;
  readonly account: string | null;
  readonly target: string;
  readonly preview: string;
  /** Per unit, as decimal strings. */
  readonly maximum_cost: Readonly<Record<string, string>>;
  readonly digest: string;
  readonly expires_at: Date;
  readonly policy: string;
  readonly approvals_needed: number;
  /** Whose signatures are still to be checked by a worker. */
  readonly approvals_submitted: bigint;
  readonly approvers: readonly string[];
  readonly keys: readonly SigningKey[];
}

/** The view's columns that are not for a list: the bytes that the digest is of. */
export interface BoundBytes {
  readonly binding_version: number;
  readonly binding: Buffer;
}

export interface PolicyViews {
  "audit.policies": AuditPolicy;
  "audit.policy_costs": { readonly policy: string; readonly unit: string; readonly amount: bigint };
  "audit.policy_approvers": { readonly policy: string; readonly approver: string };
  "audit.approvers": AuditApprover;
  "audit.approvals": AuditApproval;
  "effects.awaiting_approval": AwaitingApproval & BoundBytes;
}
