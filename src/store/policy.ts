/** Policies as the database gives them: rows into facts. */
import { amountsFromJson } from "../core/amount.ts";
import type { PolicyFacts } from "../core/facts.ts";

export type PolicyRow =
  | { kind: "ordinary"; policy_id: string; name: string; revoked: boolean; revision: number }
  | {
      kind: "owner";
      policy_id: string;
      name: string;
      revoked: boolean;
      suspended: boolean;
      revision: number;
      operation: string;
      version: number;
      task_id: string;
      task_depth: number;
      actor: string | null;
      target: string | null;
      target_match: "exact" | "prefix" | null;
      costs: Record<string, string>;
      admissions_max: string | null;
      admissions_used: string;
      open_max: string | null;
      open_now: string;
      approvals_needed: number;
      requester_excluded: boolean;
      precondition_enforced: boolean;
      prepared_within_ms: number | null;
      expires_at_ms: number | null;
      added_at_ms: number;
      approvers: string[];
    };

/** A policy as the admission decides from it. */
export function policyFromRow(row: PolicyRow): PolicyFacts {
  const { kind, policy_id: policyId, name, revoked, revision } = row;
  if (kind === "ordinary") return { kind, policyId, name, revoked, revision };
  return {
    kind,
    policyId,
    name,
    revoked,
    revision,
    suspended: row.suspended,
    operation: row.operation,
    version: row.version,
    taskId: row.task_id,
    taskDepth: row.task_depth,
    actor: row.actor,
    target: row.target === null || row.target_match === null ? null : { match: row.target_match, text: row.target },
    costs: amountsFromJson(row.costs),
    admissionsMax: row.admissions_max === null ? null : BigInt(row.admissions_max),
    admissionsUsed: BigInt(row.admissions_used),
    openMax: row.open_max === null ? null : BigInt(row.open_max),
    openNow: BigInt(row.open_now),
    approvalsNeeded: row.approvals_needed,
    requesterExcluded: row.requester_excluded,
    preconditionEnforced: row.precondition_enforced,
    preparedWithinMs: row.prepared_within_ms,
    expiresAtMs: row.expires_at_ms,
    addedAtMs: row.added_at_ms,
    approvers: row.approvers,
  };
}
