/**
 * Waiting for what has no event of its own: a row, a lock that somebody waits for, a counter at a recipient. It never
 * stands for "long enough": a condition that does not come fails the test by name.
 */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

/** Far beyond what any condition here needs, so that a loaded machine fails no test. */
const TIMEOUT_MS = 20_000;

/** Between two looks. */
const LOOK_AGAIN_MS = 10;

/** Looks until the condition holds, and returns what was seen then. Nothing, null, false and zero do not hold. */
export async function waitFor<Seen>(
  what: string,
  look: () => Promise<Seen> | Seen,
  { timeoutMs = TIMEOUT_MS }: { readonly timeoutMs?: number } = {},
): Promise<Exclude<Seen, null | undefined | false | 0 | "">> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const seen = await look();
    if (seen) return seen as Exclude<Seen, null | undefined | false | 0 | "">;
    assert.ok(performance.now() < deadline, `never came within ${timeoutMs} ms: ${what}`);
    await delay(LOOK_AGAIN_MS);
  }
}

/** A latch: opened once, by whoever the waiting code must not overtake. */
export interface Latch {
  readonly opened: Promise<void>;
  open(): void;
}

export function latch(): Latch {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
