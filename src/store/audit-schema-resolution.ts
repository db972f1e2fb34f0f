/**
 * The views about what is not settled and how doubt was ended, as Kysely types them: column for column what
 * migrations/0014_audit.sql creates. Types only.
 */
import type { Outcome, State } from "../core/state.ts";

/** audit.resolutions: `says` is null where the wanted state was reached by an unknown hand, or the risk was accepted. */
export interface AuditResolution {
  readonly effect_id: string;
  readonly kind: "evidence" | "reached" | "risk_accepted";
  /** dispatch, run, reconcile, operator, or a registered source. */
  readonly source: string;
  readonly says: Exclude<Outcome, "uncertain"> | null;
  readonly by_role: string;
  readonly at: Date;
  readonly reason: string | null;
  readonly reference: string | null;
  readonly evidence_digest: string | null;
}

/** audit.contradictions: one row a unit; `amount_at_stake` as digits. */
export interface AuditContradiction {
  readonly effect_id: string;
  readonly at: Date;
  readonly source: string;
  readonly says: string;
  /** What stood: a resolution's word, the outcome, or the state of what was never admitted. */
  readonly recorded: string;
  readonly amount_at_stake: string | null;
  readonly unit: string | null;
}

/** audit.sources: who may submit evidence. */
export interface AuditSource {
  readonly source: string;
  readonly submitted_by: string | null;
  readonly authoritative: boolean;
  readonly added_by: string;
  readonly added_at: Date;
  readonly revoked_at: Date | null;
}

/** audit.live: what waits, is in flight, or is in doubt. */
interface AuditLive {
  readonly effect_id: string;
  readonly operation: string;
  readonly task_path: string;
  readonly requested_at: Date;
  readonly not_before: Date | null;
  readonly state: State;
  readonly waiting_for: string | null;
  readonly unresolved: boolean;
  readonly unresolved_since: Date | null;
}

interface AuditOutcome {
  readonly effect_id: string;
  readonly outcome: Outcome;
  readonly via: "dispatch" | "run" | "reconcile" | "resolve";
  readonly at: Date;
  readonly by_role: string;
  readonly by_worker: string | null;
}

interface AuditEvent {
  readonly effect_id: string;
  readonly seq: number;
  readonly at: Date;
  readonly event: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface ResolutionViews {
  "audit.resolutions": AuditResolution;
  "audit.contradictions": AuditContradiction;
  "audit.sources": AuditSource;
  "audit.live": AuditLive;
  "audit.outcomes": AuditOutcome;
  "audit.events": AuditEvent;
}
