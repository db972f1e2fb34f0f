/**
 * What a worker keeps going beside its jobs: its heartbeat, the jobs of workers that died, effects without a job, and
 * the mark on windows that passed. It asks no recipient, admits nothing and sends nothing.
 */
import { describeThrown } from "../core/text.ts";
import type { Runtime } from "../runtime.ts";
import { queueCleanups } from "../store/cleanup.ts";
import { cancelRequested, freeSilent, freeUnnamed, heartbeat, markOverdue, queueWaiting } from "../store/workers.ts";

/** Three beats fit into the silence that is taken for death, so that a slow one is not. */
const HEARTBEAT_MS = 4_000;
const SILENT_MS = 15_000;
const OVERDUE_MS = 1_000;
/** A cancellation reaches its dispatch within so long; behind a pooler nobody could listen for it. */
const CANCEL_MS = 1_000;
const QUEUE_WAITING_MS = 60_000;

export interface Keeping {
  /** Records that graphile-worker made a pool: its jobs are ours to free should this process die, from now on. */
  named(poolId: string): void;
  stop(): Promise<void>;
}

/** Starts it. */
export function startKeeping(runtime: Runtime): Keeping {
  const { pool, worker, release } = runtime;
  const operations = [...runtime.operations.keys()];
  const pools: string[] = [];
  const beat = () => heartbeat(pool, { id: worker, pools, release, operations, remembered: runtime.remembered });
  const loops = [
    every(runtime, HEARTBEAT_MS, async () => {
      await beat();
      for (const silent of await freeSilent(pool, SILENT_MS)) {
        runtime.log("warning", `worker ${silent} is silent; its jobs are free again`);
      }
    }),
    every(runtime, OVERDUE_MS, async () => {
      await markOverdue(pool, worker);
    }),
    every(runtime, CANCEL_MS, () => abortCancelled(runtime)),
    every(runtime, QUEUE_WAITING_MS, async () => {
      await freeUnnamed(pool, SILENT_MS);
      const queued = await queueWaiting(pool);
      if (queued > 0) runtime.log("info", `${queued} effects waited without a job and have one again`);
      const owed = await queueCleanups(pool);
      if (owed > 0) runtime.log("info", `${owed} cleanups were due without a job and have one again`);
    }),
  ];
  return {
    named(poolId) {
      pools.push(poolId);
      // At once: it takes jobs within milliseconds, and they would stay locked if it died before the next beat.
      beat().catch((error: unknown) => runtime.log("warning", `keeping: ${describeThrown(error)}`));
    },
    async stop() {
      await Promise.all(loops.map((stop) => stop()));
    },
  };
}

/** Aborts the signals of dispatches that somebody asked to cancel. What becomes of them is what their adapters report. */
async function abortCancelled({ dispatching, pool, log }: Runtime): Promise<void> {
  const running = [...dispatching].filter(([, { signal }]) => !signal.aborted).map(([effectId]) => effectId);
  if (running.length === 0) return;
  for (const effectId of await cancelRequested(pool, running)) {
    log("info", `effect ${effectId} is being dispatched, and cancellation was requested`);
    dispatching.get(effectId)?.abort(new Error("cancellation was requested"));
  }
}

/** Runs a step now and then again after each pause, until stopped; a fault is logged and the next round tries again. */
function every(runtime: Runtime, ms: number, step: () => Promise<void>): () => Promise<void> {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let wake = () => {};
  const loop = (async () => {
    while (!stopped) {
      try {
        await step();
      } catch (error) {
        runtime.log("warning", `keeping: ${describeThrown(error)}`);
      }
      if (stopped) return;
      await new Promise<void>((resolve) => {
        wake = resolve;
        timer = setTimeout(resolve, ms);
      });
    }
  })();
  return async () => {
    stopped = true;
    clearTimeout(timer);
    wake();
    await loop;
  };
}
