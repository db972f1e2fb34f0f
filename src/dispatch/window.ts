/**
 * The dispatch window: opens when COMMIT is sent and lasts `dispatchTimeoutMs`, by this process's monotonic clock and by
 * its wall clock, whichever has run further (a suspended machine stops the first; the second may be set back).
 */

/** Milliseconds left; zero or less when the window has passed. */
export function remainingMs(
  opened: { readonly monotonicMs: number; readonly wallMs: number },
  timeoutMs: number,
  now: { readonly monotonicMs: number; readonly wallMs: number } = {
    monotonicMs: performance.now(),
    wallMs: Date.now(),
  },
): number {
  return timeoutMs - Math.max(now.monotonicMs - opened.monotonicMs, now.wallMs - opened.wallMs);
}
