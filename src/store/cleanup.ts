/** Cleanups that admissions owe. No decisions: what is to be cleaned comes out, what was shown goes in. */
import type pg from "pg";
import type { StoredEvidence } from "../core/outcome.ts";
import { evidenceToJson } from "./outcome.ts";

/** A cleanup that is begun, with what its adapter is called with. */
export interface BegunCleanup {
  /** Which try it is, from 1. */
  readonly tries: number;
  readonly key: string;
  readonly attempt: string;
  readonly bytes: string;
  readonly payload: string;
}

/** Begins one, or says why there is none to begin: what is skipped for a while is queued again. */
export async function beginCleanup(
  pool: pg.Pool,
  effectId: string,
  bounds: { readonly versions: readonly number[]; readonly longestMs: number },
): Promise<BegunCleanup | { readonly skipped: string }> {
  const { rows } = await pool.query<{ begun: BegunCleanup | { skipped: string } }>(
    "select effects_ledger.begin_cleanup($1, $2::int[], $3) as begun",
    [effectId, bounds.versions, bounds.longestMs],
  );
  return rows[0]?.begun ?? { skipped: "not_due" };
}

/** What came of a try: evidence that it is done, or why it is not. */
export type CleanupEnd = { readonly evidence: StoredEvidence } | { readonly fault: string };

/** Closes the obligation, or leaves it open and queues the next try. */
export async function finishCleanup(
  pool: pg.Pool,
  worker: string,
  effectId: string,
  tries: number,
  end: CleanupEnd,
): Promise<void> {
  const evidence = "evidence" in end ? JSON.stringify(evidenceToJson(end.evidence)) : null;
  const fault = "fault" in end ? end.fault : null;
  await pool.query("select effects_ledger.finish_cleanup($1, $2, $3::jsonb, $4, $5)", [
    effectId,
    tries,
    evidence,
    fault,
    worker,
  ]);
}

/** Queues a cleanup again at once, for whichever worker takes it. */
export async function queueCleanup(pool: pg.Pool, effectId: string): Promise<void> {
  await pool.query("select effects_ledger.queue_cleanup($1::uuid[], now())", [[effectId]]);
}

/** Queues again what is due and has no job. Returns how many. */
export async function queueCleanups(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ queued: number }>("select effects_ledger.queue_cleanups() as queued");
  return rows[0]?.queued ?? 0;
}
