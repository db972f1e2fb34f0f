/** Reconciliations and inspections. No decisions: what is to be asked comes out, what was found goes in. */
import type pg from "pg";
import { type Amounts, amountsFromJson } from "../core/amount.ts";
import type { StoredEvidence } from "../core/outcome.ts";
import { evidenceToJson, type OutcomeFate, type OutcomeItem, outcomeToJson } from "./outcome.ts";

export interface BegunReconciliation {
  readonly allowFence: boolean;
  readonly remainingMs: number;
  readonly effects: readonly string[];
}

/** Starts a reconciliation's run for one operation; null where it ran already or comes too late. */
export async function beginReconciliation(
  pool: pg.Pool,
  reconciliationId: string,
  operation: string,
  worker: string,
): Promise<BegunReconciliation | null> {
  const { rows } = await pool.query<{
    begun: { allow_fence: boolean; remaining_ms: number; effects: string[] } | null;
  }>("select effects_ledger.begin_reconciliation($1, $2, $3) as begun", [reconciliationId, operation, worker]);
  const begun = rows[0]?.begun;
  return begun ? { allowFence: begun.allow_fence, remainingMs: begun.remaining_ms, effects: begun.effects } : null;
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

/** An inspection whose row is committed: its adapter may be called. */
export interface OpenInspection {
  readonly inspectionId: string;
  readonly effectId: string;
  readonly key: string;
  readonly attempt: string;
  /** The root task, whose gate the record takes. */
  readonly root: string;
  readonly bytes: string;
  readonly payload: string;
  readonly reserved: Amounts;
  readonly remainingMs: number;
  readonly sinceAdmissionMs: number;
  readonly dispatchEnded: boolean;
}

/** Opens an inspection, or says why there is none to open. */
export async function beginInspection(
  pool: pg.Pool,
  asked: {
    reconciliationId: string;
    effectId: string;
    kind: "lookup" | "fence";
    worker: string;
    implementation: string;
  },
): Promise<OpenInspection | { readonly skipped: string }> {
  const { rows } = await pool.query<{ opened: InspectionRow | { skipped: string } }>(
    "select effects_ledger.begin_inspection($1, $2, $3, $4, $5) as opened",
    [asked.reconciliationId, asked.effectId, asked.kind, asked.worker, asked.implementation],
  );
  const opened = (rows[0] as (typeof rows)[number]).opened;
  if ("skipped" in opened) return opened;
  return {
    inspectionId: opened.inspection_id,
    effectId: opened.effect_id,
    key: opened.key,
    attempt: opened.attempt,
    root: opened.root,
    bytes: opened.bytes,
    payload: opened.payload,
    reserved: amountsFromJson(opened.cost),
    remainingMs: opened.remaining_ms,
    sinceAdmissionMs: opened.begun_at_ms - opened.admitted_at_ms,
    dispatchEnded: opened.dispatch_ended,
  };
}

interface InspectionRow {
  inspection_id: string;
  effect_id: string;
  key: string;
  attempt: string;
  root: string;
  bytes: string;
  payload: string;
  cost: Record<string, string>;
  remaining_ms: number;
  begun_at_ms: number;
  admitted_at_ms: number;
  dispatch_ended: boolean;
}

/** Closes an inspection with its report; an outcome is recorded in the same transaction. */
export async function finishInspection(
  client: pg.ClientBase,
  worker: string,
  found: {
    readonly inspectionId: string;
    readonly report: string;
    readonly reason: string | null;
    readonly tookMs: number;
    readonly outcome: OutcomeItem | null;
    readonly evidence: StoredEvidence | null;
  },
): Promise<OutcomeFate | null> {
  const { rows } = await client.query<{ fate: OutcomeFate | null }>(
    "select effects_ledger.finish_inspection($1, $2, $3, $4, $5::jsonb, $6::jsonb, $7) as fate",
    [
      found.inspectionId,
      found.report,
      found.reason,
      Math.round(found.tookMs),
      found.outcome && JSON.stringify(outcomeToJson(found.outcome)),
      found.evidence && JSON.stringify(evidenceToJson(found.evidence)),
      worker,
    ],
  );
  return rows[0]?.fate ?? null;
}
