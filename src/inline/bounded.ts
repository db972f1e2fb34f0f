/**
 * Calls a host's function under a deadline. Past it nothing that the function says counts any more, whenever it says it;
 * it never decides what an answer means.
 */

/** Left of `timeoutMs` since a moment, by this process's monotonic and its wall clock, whichever has run further. */
export type RemainingMs = () => number;

/**
 * The answer in time.
 * @param remaining milliseconds that are left; a suspended machine stops a timer, and not both clocks
 * @throws whatever it throws; an Error where it overran
 */
export async function callBounded<Result>(
  call: (signal: AbortSignal) => Promise<Result> | Result,
  timeoutMs: number,
  remaining: RemainingMs,
): Promise<Result> {
  const abort = new AbortController();
  const overran = new Error(`no answer within ${timeoutMs} ms`);
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    abort.abort(overran);
    reject(overran);
  }, timeoutMs);
  try {
    const answer = await Promise.race([settled(call, abort.signal), late]);
    if (remaining() > 0) return answer;
    abort.abort(overran);
    throw overran;
  } finally {
    clearTimeout(timer);
  }
}

/** Calls at once, and turns a throw into a rejection. */
async function settled<Result>(
  call: (signal: AbortSignal) => Promise<Result> | Result,
  signal: AbortSignal,
): Promise<Result> {
  return call(signal);
}

/** Calls without a deadline; the signal aborts after `signalAfterMs`, where that is not null. */
export async function callSignalled<Result>(
  call: (signal: AbortSignal) => Promise<Result> | Result,
  signalAfterMs: number | null,
): Promise<Result> {
  const abort = new AbortController();
  const words = `the window has passed: another process may ask the recipient by now`;
  const timer =
    signalAfterMs === null ? undefined : setTimeout(() => abort.abort(new Error(words)), Math.max(0, signalAfterMs));
  try {
    return await settled(call, abort.signal);
  } finally {
    clearTimeout(timer);
  }
}
