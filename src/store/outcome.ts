/** Outcomes and what admitted effects report in between. No decisions: a decided record goes in, its fate comes out. */
import type pg from "pg";
import type { Settlement, StoredEvidence } from "../core/outcome.ts";
import type { Outcome } from "../core/state.ts";

export interface OutcomeItem {
  readonly effectId: string;
  /** Of the attempt's token; null where an inspection and not the dispatch reports. */
  readonly tokenHash: string | null;
  readonly via: "dispatch" | "run" | "reconcile";
  readonly outcome: Outcome;
  readonly evidence: StoredEvidence;
  /** What resolves an `uncertain` outcome in the same write. */
  readonly resolution?: "reached" | null;
  readonly reference: string | null;
  readonly standing: "settled" | "released" | null;
  readonly settlements: readonly Settlement[];
  /** After so long it is tried again, as a new effect, as far as that was allowed. */
  readonly againAfterMs?: number | null;
}

/**
 * `recorded`: it is the outcome now; `same`: it was already; `resolved`: it resolved what was uncertain; `after_risk`: the
 * same, after somebody had accepted the risk; `late`: another one was recorded before, and it is kept beside that;
 * `refused`: not this attempt's token.
 */
export type OutcomeFate = "recorded" | "same" | "resolved" | "after_risk" | "late" | "refused";

/** Records outcomes, settles their costs, and tells what became of each. */
export async function recordOutcomes(
  client: pg.ClientBase,
  worker: string,
  items: readonly OutcomeItem[],
): Promise<ReadonlyMap<string, OutcomeFate>> {
  const { rows } = await client.query<{ fates: Record<string, OutcomeFate> }>({
    name: "record_outcomes",
    text: "select effects_ledger.record_outcomes($1::jsonb, $2) as fates",
    values: [JSON.stringify(items.map(outcomeToJson)), worker],
  });
  return new Map(Object.entries(rows[0]?.fates ?? {}));
}

/** An outcome as the ledger's functions take it. */
export function outcomeToJson(item: OutcomeItem): object {
  return {
    effect_id: item.effectId,
    token_hash: item.tokenHash,
    via: item.via,
    outcome: item.outcome,
    evidence: evidenceToJson(item.evidence),
    resolution: item.resolution ?? null,
    reference: item.reference,
    standing: item.standing,
    ...(typeof item.againAfterMs === "number" && { again_after_ms: item.againAfterMs }),
    settlements: item.settlements.map(({ unit, settled, overrun, source }) => ({
      unit,
      settled: settled.toString(),
      overrun: overrun.toString(),
      source,
    })),
  };
}

/** Evidence as the ledger's functions take it: bytes and digest in hex. */
export function evidenceToJson(evidence: StoredEvidence): object {
  return { bytes: evidence.bytes.toString("hex"), digest: evidence.digest.toString("hex") };
}

export interface NoteItem {
  readonly effectId: string;
  readonly tokenHash: string;
  readonly event: "unresolved" | "dispatch_ended" | "referenced";
  /** True where the adapter's promise has settled. */
  readonly ended: boolean;
  readonly detail: Readonly<Record<string, string>>;
}

/** Appends what the holder of an attempt has to say without an outcome. */
export async function recordNotes(
  client: pg.ClientBase | pg.Pool,
  worker: string,
  items: readonly NoteItem[],
): Promise<void> {
  const json = items.map((item) => ({
    effect_id: item.effectId,
    token_hash: item.tokenHash,
    event: item.event,
    ended: item.ended,
    detail: item.detail,
  }));
  await client.query({
    name: "record_unresolved",
    text: "select effects_ledger.record_unresolved($1::jsonb, $2)",
    values: [JSON.stringify(json), worker],
  });
}
