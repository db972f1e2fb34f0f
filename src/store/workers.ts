/** Worker processes and what they keep going. No decisions. */
import type pg from "pg";

export interface RegisteredOperation {
  readonly operation: string;
  readonly version: number;
  readonly contract: object;
  readonly contract_digest: string;
  readonly input_schema: object;
  readonly implementation: string;
  readonly release: string;
}

/** Registers what a worker runs. @throws 42501 where a protected operation's implementation differs. */
export async function registerOperations(pool: pg.Pool, operations: readonly RegisteredOperation[]): Promise<void> {
  await pool.query("select effects_ledger.register_operations($1::jsonb)", [JSON.stringify(operations)]);
}

/** True where every operation of the ledger is protected, and its worker runs nothing else. */
export async function isStrict(pool: pg.Pool): Promise<boolean> {
  const { rows } = await pool.query<{ strict: boolean }>("select strict from effects.ledger");
  return rows[0]?.strict === true;
}

/** Says that a worker is alive, with the pools whose jobs are its own. */
export async function heartbeat(
  pool: pg.Pool,
  worker: {
    readonly id: string;
    readonly pools: readonly string[];
    readonly release: string;
    readonly operations: readonly string[];
    /** The newest admission that was confirmed to it. */
    readonly remembered: string | null;
  },
): Promise<void> {
  await pool.query("select effects_ledger.heartbeat($1, $2, $3, $4, $5)", [
    worker.id,
    worker.pools,
    worker.release,
    worker.operations,
    worker.remembered,
  ]);
}

/** Says that a worker has stopped by itself: nothing of it needs freeing. */
export async function stopWorker(pool: pg.Pool, id: string): Promise<void> {
  await pool.query("select effects_ledger.stop_worker($1)", [id]);
}

/** Frees the jobs of workers silent for longer than given. Returns these workers. */
export async function freeSilent(pool: pg.Pool, silentMs: number): Promise<readonly string[]> {
  const { rows } = await pool.query<{ worker: string }>("select worker from effects_ledger.free_silent($1) as worker", [
    silentMs,
  ]);
  return rows.map(({ worker }) => worker);
}

/** Frees jobs locked for longer than given by a pool that no worker named: it died before its first heartbeat. */
export async function freeUnnamed(pool: pg.Pool, silentMs: number): Promise<void> {
  await pool.query("select effects_ledger.free_unnamed($1)", [silentMs]);
}

/** Queues again what waits without a job. Returns how many. */
export async function queueWaiting(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ queued: number }>("select effects_ledger.queue_waiting() as queued");
  return rows[0]?.queued ?? 0;
}

/** Of these effects, those that somebody asked to cancel after their admission. */
export async function cancelRequested(pool: pg.Pool, ids: readonly string[]): Promise<readonly string[]> {
  const { rows } = await pool.query<{ effect_id: string }>({
    name: "cancel_requested",
    text: "select effect_id from effects_ledger.cancel_requested($1::uuid[]) as effect_id",
    values: [ids],
  });
  return rows.map(({ effect_id }) => effect_id);
}

/** Marks what has passed its dispatch window without a word. Returns how many. */
export async function markOverdue(pool: pg.Pool, worker: string): Promise<number> {
  const { rows } = await pool.query<{ marked: number }>("select effects_ledger.mark_overdue($1) as marked", [worker]);
  return rows[0]?.marked ?? 0;
}
