/**
 * Calls one function of an adapter under a deadline. Whatever it does (throws anything, never settles, ignores its
 * signal), the caller gets an answer in time, and the process lives on. It never decides what an answer means.
 */
import type { AdapterContext } from "../core/operation.ts";
import type { Secrets } from "../core/secret.ts";
import { describeThrown } from "../core/text.ts";

/** After its signal an adapter is given so long to end what it started, so that the record can say that it ended. */
const ABORT_GRACE_MS = 1_000;

export type AdapterEnd<Result> =
  | { readonly end: "returned"; readonly value: Result }
  | { readonly end: "threw"; readonly reason: string }
  /** Out of time; `later` settles if the adapter ever does. */
  | { readonly end: "timed_out"; readonly reason: string; readonly later: Promise<AdapterSettled<Result>> | null };
export type AdapterSettled<Result> = Exclude<AdapterEnd<Result>, { end: "timed_out" }>;

/**
 * Runs the call. `timeoutMs` is checked by the caller to be a timer that Node keeps. `cancelled` aborts the adapter's signal
 * and nothing else: whoever ignores it keeps its time, and whatever it says is taken as it is.
 *
 * So is what comes after the timeout (the adapter held the event loop, or ended within the grace): the window says until when
 * a call may begin, and a recipient's acceptance is true whenever it arrives (protocol, section 6). `late` is said of what
 * was never called; a report beside an outcome that somebody recorded meanwhile is late evidence.
 */
export async function callAdapter<Result>(
  call: (context: AdapterContext) => Promise<Result> | Result,
  bounds: { readonly timeoutMs: number; readonly secrets: Secrets; readonly cancelled?: AbortSignal },
): Promise<AdapterEnd<Result>> {
  const abort = new AbortController();
  const context: AdapterContext = {
    signal: bounds.cancelled ? AbortSignal.any([abort.signal, bounds.cancelled]) : abort.signal,
    deadline: new Date(Date.now() + bounds.timeoutMs),
    secret: (name) => bounds.secrets.get(name),
  };
  const settled = settle(() => call(context), bounds.secrets);
  const inTime = await within(settled, bounds.timeoutMs);
  if (inTime) return inTime;
  const reason = `no answer within ${Math.round(bounds.timeoutMs)} ms`;
  abort.abort(new Error(reason));
  const afterAbort = await within(settled, ABORT_GRACE_MS);
  if (!afterAbort) return { end: "timed_out", reason: `${reason}, and the adapter ignored its signal`, later: settled };
  if (afterAbort.end === "returned") return afterAbort;
  return { end: "timed_out", reason: `${reason}: ${afterAbort.reason}`, later: null };
}

async function settle<Result>(run: () => Promise<Result> | Result, secrets: Secrets): Promise<AdapterSettled<Result>> {
  try {
    return { end: "returned", value: await run() };
  } catch (thrown) {
    return { end: "threw", reason: describeThrown(thrown, (text) => secrets.strikeOut(text)) };
  }
}

async function within<Value>(promise: Promise<Value>, ms: number): Promise<Value | null> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, ms, null);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
