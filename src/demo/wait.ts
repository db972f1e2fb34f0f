/**
 * Waiting for a condition that has no event of its own: bounded, and over at once when the demo is to end. It never takes
 * the end of a wait for the condition.
 */
import { setTimeout as delay } from "node:timers/promises";
import { LedgerError } from "../core/error.ts";

/** What takes longer than this has gone wrong, also on a busy machine. */
export const WAIT_MS_MAX = 30_000;

const LOOK_AGAIN_MS = 100;

/**
 * Looks again and again until there is something to return.
 * @throws LedgerError `demo_waited`, or the signal's reason
 */
export async function until<Found>(
  what: string,
  look: () => Promise<Found | null> | Found | null,
  bounds: { readonly signal: AbortSignal; readonly ms?: number },
): Promise<Found> {
  const { signal, ms = WAIT_MS_MAX } = bounds;
  const ends = performance.now() + ms;
  for (;;) {
    signal.throwIfAborted();
    const found = await look();
    if (found !== null) return found;
    if (performance.now() >= ends) throw waitedFor(what, ms);
    await pause(LOOK_AGAIN_MS, signal);
  }
}

/**
 * Waits for a promise of somebody else's that may never settle.
 * @throws LedgerError `demo_waited`, the signal's reason, or what the promise rejected with
 */
export async function reached<Value>(what: string, promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  const done = new AbortController();
  const end = AbortSignal.any([signal, done.signal]);
  const late = pause(WAIT_MS_MAX, end).then(
    () => Promise.reject(waitedFor(what, WAIT_MS_MAX)),
    () => Promise.reject(signal.reason),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    late.catch(() => undefined); // the promise was first
    done.abort();
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch {
    signal.throwIfAborted(); // the reason itself, not the timer's wording of it
  }
}

function waitedFor(what: string, ms: number): LedgerError {
  return new LedgerError("demo_waited", `waited ${ms / 1_000} s for what did not come: ${what}`, {
    hint: "a machine under heavy load is too slow for the demo's timeouts of seconds; try again",
  });
}
