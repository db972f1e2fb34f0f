/** Reconciliations and inspections. No decisions: what is to be asked comes out, what was found goes in. */
import type pg from "pg";
import { type Amounts, amountsFromJson } from "../core/amount.ts";
import type { StoredEvidence } from "../core/outcome.ts";
import type { InspectionKind } from "../core/reconciliation.ts";
import type { State } from "../core/state.ts";
import { evidenceToJson, type OutcomeItem, outcomeToJson } from "./outcome.ts";

export interface BegunReconciliation {
  readonly allowFence: boolean;
  readonly allowResubmit: boolean;
  readonly remainingMs: number;
  readonly effects: readonly ScopedEffect[];
}
/** An effect in a request's scope, and the root task whose gate its record takes. */
export interface ScopedEffect {
  readonly effectId: string;
  readonly root: string;
}

/** Starts a reconciliation's run for one operation; null where it ran already or comes too late. */
export async function beginReconciliation(
  pool: pg.Pool,
  reconciliationId: string,
  operation: string,
  worker: string,
): Promise<BegunReconciliation | null> {
  const { rows } = await pool.query<{
    begun: {
      allow_fence: boolean;
      allow_resubmit: boolean;
      remaining_ms: number;
      effects: { effect_id: string; root: string }[];
    } | null;
  }>("select effects_ledger.begin_reconciliation($1, $2, $3) as begun", [reconciliationId, operation, worker]);
  const begun = rows[0]?.begun;
  if (!begun) return null;
  return {
    allowFence: begun.allow_fence,
    allowResubmit: begun.allow_resubmit,
    remainingMs: begun.remaining_ms,
    effects: begun.effects.map(({ effect_id: effectId, root }) => ({ effectId, root })),
  };
}

/** Ends a run, once. */
export async function endReconciliation(
  pool: pg.Pool,
  reconciliationId: string,
  operation: string,
  ended: "finished" | "expired" | "stopped",
): Promise<void> {
  await pool.query("select effects_ledger.end_reconciliation($1, $2, $3)", [reconciliationId, operation, ended]);
}

/** An inspection whose row is committed: its adapter may be called. Moments are the database's. */
export interface OpenInspection {
  readonly inspectionId: string;
  readonly effectId: string;
  readonly state: State;
  readonly key: string;
  readonly attempt: string;
  /** The root task, whose gate the record takes. */
  readonly root: string;
  readonly bytes: string;
  readonly payload: string;
  readonly reserved: Amounts;
  readonly remainingMs: number;
  readonly begunAtMs: number;
  readonly admittedAtMs: number;
  readonly dispatchDeadlineMs: number;
  readonly dispatchEndedAtMs: number | null;
}

/** An inspection that is to be opened. */
export interface InspectionItem extends ScopedEffect {
  readonly reconciliationId: string;
  readonly kind: InspectionKind;
  readonly implementation: string;
  /** The versions whose effects this code can look up. */
  readonly versions: readonly number[];
}
export type Opened = OpenInspection | { readonly skipped: string };

/** Opens inspections, or says why there is none to open. In the order asked. */
export async function beginInspections(
  client: pg.ClientBase | pg.Pool,
  worker: string,
  items: readonly InspectionItem[],
): Promise<readonly Opened[]> {
  const json = items.map(({ reconciliationId, effectId, kind, implementation, versions }) => ({
    reconciliation_id: reconciliationId,
    effect_id: effectId,
    kind,
    implementation,
    versions,
  }));
  const { rows } = await client.query<{ answers: Record<string, InspectionRow | { skipped: string }> }>({
    name: "begin_inspections",
    text: "select effects_ledger.begin_inspections($1::jsonb, $2) as answers",
    values: [JSON.stringify(json), worker],
  });
  const answers = rows[0]?.answers ?? {};
  return items.map(({ effectId }) => {
    const opened = answers[effectId] ?? { skipped: "unknown" };
    return "skipped" in opened ? opened : fromRow(opened);
  });
}

function fromRow(opened: InspectionRow): OpenInspection {
  return {
    inspectionId: opened.inspection_id,
    effectId: opened.effect_id,
    state: opened.state,
    key: opened.key,
    attempt: opened.attempt,
    root: opened.root,
    bytes: opened.bytes,
    payload: opened.payload,
    reserved: amountsFromJson(opened.cost),
    remainingMs: opened.remaining_ms,
    begunAtMs: opened.begun_at_ms,
    admittedAtMs: opened.admitted_at_ms,
    dispatchDeadlineMs: opened.dispatch_deadline_ms,
    dispatchEndedAtMs: opened.dispatch_ended_at_ms,
  };
}

interface InspectionRow {
  inspection_id: string;
  effect_id: string;
  state: State;
  key: string;
  attempt: string;
  root: string;
  bytes: string;
  payload: string;
  cost: Record<string, string>;
  remaining_ms: number;
  begun_at_ms: number;
  admitted_at_ms: number;
  dispatch_deadline_ms: number;
  dispatch_ended_at_ms: number | null;
}

/** What an inspection found. */
export interface FoundItem {
  readonly inspectionId: string;
  readonly root: string;
  readonly report: string;
  readonly reason: string | null;
  readonly tookMs: number;
  readonly outcome: OutcomeItem | null;
  readonly evidence: StoredEvidence | null;
  readonly conclusiveAtMs: number | null;
}

/** Closes inspections with their reports; outcomes are recorded in the same transaction. */
export async function finishInspections(
  client: pg.ClientBase,
  worker: string,
  items: readonly FoundItem[],
): Promise<void> {
  const json = items.map((found) => ({
    inspection_id: found.inspectionId,
    report: found.report,
    reason: found.reason,
    took_ms: Math.round(found.tookMs),
    outcome: found.outcome && outcomeToJson(found.outcome),
    evidence: found.evidence && evidenceToJson(found.evidence),
    conclusive_at_ms: found.conclusiveAtMs,
  }));
  await client.query({
    name: "finish_inspections",
    text: "select effects_ledger.finish_inspections($1::jsonb, $2)",
    values: [JSON.stringify(json), worker],
  });
}

/** What a resubmission wants to know of the first dispatch. */
export async function firstDispatch(
  client: pg.ClientBase,
  effectId: string,
): Promise<{ readonly dispatchEnded: boolean; readonly sinceAdmissionMs: number; readonly sameEpoch: boolean }> {
  const { rows } = await client.query<{
    first: { dispatch_ended: boolean; since_admission_ms: number; same_epoch: boolean };
  }>("select effects_ledger.first_dispatch($1) as first", [effectId]);
  const { first } = rows[0] as (typeof rows)[number];
  return {
    dispatchEnded: first.dispatch_ended,
    sinceAdmissionMs: first.since_admission_ms,
    sameEpoch: first.same_epoch,
  };
}
