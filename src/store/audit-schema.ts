/**
 * The audit schema as Kysely types it: column for column what migrations/0014_audit.sql creates. Types only. `bigint` where
 * SQL has bigint, `Date` where it has a time.
 */
import type { DeclinedReason, Outcome, State } from "../core/state.ts";
import type { PolicyViews } from "./audit-schema-policy.ts";
import type { ResolutionViews } from "./audit-schema-resolution.ts";

/** audit.effects: one row an effect. */
export interface AuditEffect {
  readonly effect_id: string;
  readonly name: string | null;
  readonly operation: string;
  readonly operation_version: number;
  readonly implementation: string | null;
  readonly release: string | null;
  readonly task: string;
  readonly task_name: string;
  readonly task_path: string;
  readonly root_task: string;
  readonly subject: string | null;
  readonly actor: string;
  readonly requested_by: string;
  readonly requested_at: Date;
  readonly prepared_at: Date | null;
  readonly admitted_at: Date | null;
  readonly outcome_at: Date | null;
  readonly not_before: Date | null;
  readonly expires_at: Date;
  readonly dispatch_deadline: Date | null;
  readonly state: State;
  readonly unresolved: boolean;
  readonly unresolved_since: Date | null;
  readonly waiting_for: string | null;
  readonly declined_reason: DeclinedReason | null;
  readonly denial_code: string | null;
  readonly admitted_under: string | null;
  readonly invocation: string | null;
  readonly policy: string | null;
  readonly digest: string | null;
  readonly binding_version: number | null;
  readonly target: string | null;
  readonly outcome: Outcome | null;
  readonly outcome_via: "dispatch" | "run" | "reconcile" | "resolve" | null;
  readonly reference: string | null;
  readonly resolution: "evidence" | "reached" | "risk_accepted" | null;
  readonly resolved_at: Date | null;
  readonly key: string;
  readonly recovery_epoch: string;
  readonly purged_at: Date | null;
  readonly spoken_by: string | null;
  /** Null also where the wanted state was reached by an unknown hand, or the risk was accepted. */
  readonly resolution_says: Exclude<Outcome, "uncertain"> | null;
  /** Evidence disagrees with what was recorded before it. */
  readonly contradicted: boolean;
  /** What it tries again. */
  readonly follows: string | null;
  /** What tries it again, of what was not declined. */
  readonly followed_by: string | null;
  /** Why somebody had it tried again. */
  readonly follow_reason: string | null;
  /** Of an inline effect, the run that it is of. */
  readonly run: string | null;
}

/** audit.costs: one row an effect and unit. */
export interface AuditCost {
  readonly effect_id: string;
  readonly unit: string;
  readonly reserved: bigint;
  readonly settled: bigint | null;
  readonly overrun: bigint;
  readonly standing: "reserved" | "settled" | "released";
  readonly source: "measured" | "maximum" | "none" | null;
  readonly at: Date;
}

/** audit.unresolved: amounts held, by unit, as decimal strings. */
export interface AuditUnresolved {
  readonly effect_id: string;
  readonly name: string | null;
  readonly operation: string;
  readonly task_path: string;
  readonly since: Date;
  readonly reason: string;
  readonly held: Readonly<Record<string, string>>;
}

export interface AuditTimeline {
  readonly effect_id: string;
  readonly name: string | null;
  readonly at: Date;
  readonly what: string;
  readonly by_role: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface AuditEvidence {
  readonly effect_id: string;
  readonly at: Date;
  readonly source: string;
  readonly submitted_by: string;
  readonly authoritative: boolean;
  readonly says: string;
  readonly agrees: boolean | null;
  readonly reference: string | null;
  readonly body: unknown;
  readonly digest: string;
}

export interface AuditReconciliation {
  readonly reconciliation_id: string;
  readonly requested_by: string;
  readonly scope: "effect" | "task" | "operation" | "all";
  readonly scope_name: string | null;
  readonly allows: string;
  readonly requested_at: Date;
  readonly deadline: Date;
  readonly started_at: Date | null;
  readonly ended_at: Date | null;
  readonly ended: "finished" | "expired" | null;
  readonly in_scope: bigint;
  readonly inspected: bigint;
  readonly recorded: bigint;
  readonly could_not_ask: bigint;
  readonly not_reached: bigint;
  /** Inline effects that were left out. */
  readonly skipped: bigint;
}

export interface AuditInspection {
  readonly reconciliation_id: string;
  readonly effect_id: string;
  readonly kind: "lookup" | "fence" | "resubmit";
  readonly begun_at: Date;
  readonly at: Date | null;
  readonly report: string | null;
  /** What it recorded: an outcome, a resolution's word, or `reached`. */
  readonly recorded: Outcome | "reached" | null;
  readonly reason: string | null;
  /** From when on the same report would be conclusive. */
  readonly conclusive_at: Date | null;
  readonly evidence: unknown;
  readonly evidence_digest: string | null;
  readonly took_ms: bigint | null;
  readonly worker: string;
  readonly implementation: string;
  /** Of its reconciliation. */
  readonly requested_by: string;
  readonly deadline: Date;
}

/** audit.obligations: one row an effect that owes or owed a cleanup. */
export interface AuditObligation {
  readonly effect_id: string;
  readonly name: string | null;
  readonly operation: string;
  readonly invocation: string | null;
  readonly opened_at: Date;
  /** When its effect was settled; null before that. */
  readonly due_at: Date | null;
  readonly tries: number;
  readonly tried_at: Date | null;
  readonly last_fault: string | null;
  readonly given_up_at: Date | null;
  readonly closed_at: Date | null;
  readonly evidence_digest: string | null;
}

export interface AuditViolation {
  readonly violation: string;
  readonly effect_id: string | null;
  readonly object: string;
  readonly detail: string;
}

export interface AuditTask {
  readonly task: string;
  readonly name: string;
  readonly path: string;
  readonly parent: string | null;
  readonly root: string;
  readonly subject: string | null;
  /** Nobody's own: a root's. */
  readonly actor: string | null;
  readonly deadline: Date | null;
  readonly opened_by: string;
  readonly opened_at: Date;
  readonly ended_at: Date | null;
  readonly revoked_at: Date | null;
  readonly paused_at: Date | null;
}

export interface AuditBudget {
  readonly task: string;
  readonly task_path: string;
  readonly subject: string | null;
  readonly unit: string;
  readonly limit_amount: bigint;
  readonly reserved: bigint;
  readonly reserved_in_doubt: bigint;
  readonly spent: bigint;
  readonly overrun: bigint;
  /** As digits: it may be below what a bigint holds. */
  readonly left_amount: string;
  readonly set_by: string;
  readonly set_at: Date;
}

export interface AuditOperation {
  readonly operation: string;
  readonly version: number;
  readonly contract: unknown;
  readonly contract_digest: string;
  readonly implementation: string;
  readonly release: string;
  readonly protected: boolean;
  readonly registered_at: Date;
  readonly allowed_by: string | null;
  readonly allowed_at: Date | null;
  readonly withdrawn_at: Date | null;
  readonly paused_at: Date | null;
  readonly allowed_implementation: string | null;
}

export interface AuditPause {
  readonly scope: "operation" | "task" | "target" | "all";
  readonly target: string;
  readonly reason: string;
  readonly paused_by: string;
  readonly paused_at: Date;
  readonly until: Date | null;
}

export interface AuditDenial {
  readonly effect_id: string;
  readonly at: Date;
  readonly code: string;
  readonly transient: boolean;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly hint: string | null;
}

/** audit.authority: `before` and `after` hold what changed. */
export interface AuditAuthority {
  readonly at: Date;
  readonly by_role: string;
  readonly change: string;
  readonly object: string;
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
  readonly reason: string | null;
  readonly seq: bigint;
  readonly previous_hash: string;
  readonly hash: string;
}

interface LedgerRow {
  readonly ledger_id: string;
  readonly name: string;
  readonly strict: boolean;
  readonly founded_at: Date;
  readonly standing: "ok" | "standby" | "unacknowledged";
  readonly durability_gap: string | null;
}

/** Everything that the command line reads. */
export interface AuditDatabase extends PolicyViews, ResolutionViews {
  "audit.effects": AuditEffect;
  "audit.costs": AuditCost;
  "audit.unresolved": AuditUnresolved;
  "audit.timeline": AuditTimeline;
  "audit.evidence": AuditEvidence;
  "audit.reconciliations": AuditReconciliation;
  "audit.inspections": AuditInspection;
  "audit.obligations": AuditObligation;
  "audit.violations": AuditViolation;
  "audit.tasks": AuditTask;
  "audit.budgets": AuditBudget;
  "audit.operations": AuditOperation;
  "audit.pauses": AuditPause;
  "audit.denials": AuditDenial;
  "audit.authority": AuditAuthority;
  "audit.reconciliation_effects": {
    readonly reconciliation_id: string;
    readonly effect_id: string;
    readonly operation: string;
  };
  "audit.events": {
    readonly effect_id: string;
    readonly seq: number;
    readonly at: Date;
    readonly event: string;
    readonly detail: Readonly<Record<string, unknown>>;
  };
  "audit.denial_codes": { readonly code: string; readonly hint: string };
  "audit.ledger": LedgerRow & { readonly role_prefix: string | null; readonly recovery_epoch: string };
  "effects.ledger": LedgerRow;
  "audit.workers": {
    readonly worker: string;
    readonly release: string;
    readonly started_at: Date;
    readonly heartbeat_at: Date;
    readonly stopped_at: Date | null;
    readonly freed_at: Date | null;
    readonly queues: number;
  };
  "audit.stranded_jobs": { readonly queue: string; readonly since: Date; readonly jobs: bigint };
  "audit.worker_operations": { readonly worker: string; readonly operation: string };
  "audit.migrations": { readonly number: number; readonly name: string; readonly digest: string };
}
