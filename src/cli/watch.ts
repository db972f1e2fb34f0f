/**
 * Waiting for the ledger to say something: looks now, then again after growing pauses, until it is said, the time is up or
 * Ctrl-C ends the looking. What is waited for goes on without it.
 */
import { setTimeout as delay } from "node:timers/promises";

/** Between two looks, in milliseconds: the first, then up to the last. */
const LOOK_AGAIN_MS = [50, 100, 200, 300, 500] as const;

/**
 * Runs a body in which SIGINT and SIGTERM end the watching and not the process. It begins before the request is made: else
 * a signal could come when it stands and nobody was told its id.
 */
export async function watching<Result>(body: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const controller = new AbortController();
  const onSignal = () => controller.abort();
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  try {
    return await body(controller.signal);
  } finally {
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
  }
}

/** Waits, or until the signal. */
export async function pauseUnlessAborted(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {}); // aborted: whoever loops sees it
}

/** Looks until `look` returns something; null where the time was up or the signal came first. */
export async function lookUntil<Seen>(
  look: () => Promise<Seen | null>,
  options: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<Seen | null> {
  const ends = performance.now() + options.timeoutMs;
  for (let looks = 0; ; looks++) {
    const seen = await look();
    const left = ends - performance.now();
    if (seen !== null || left <= 0 || options.signal.aborted) return seen;
    const pauseMs = Math.min(left, LOOK_AGAIN_MS[looks] ?? 500);
    await pauseUnlessAborted(pauseMs, options.signal);
  }
}
