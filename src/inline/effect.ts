/**
 * An inline effect from call to end (ADR 0200): find it; run it, once, behind its intent; or ask the recipient; or say what
 * was recorded. Nothing here calls out while a transaction is open.
 */

import { LedgerError } from "../core/error.ts";
import {
  checkInlineFunctions,
  checkInlineName,
  checkInlineTimer,
  decideCall,
  decideFound,
  decideNeverRun,
  decideProof,
  type InlineEnd,
  type InlineFacts,
  inWords,
  kindOf,
  neverRun,
  RECONCILE_TIMEOUT_MS,
  RUN_TIMEOUT_MS,
} from "../core/inline.ts";
import type { Decision } from "../core/outcome.ts";
import { EffectUnresolvedError } from "../core/unresolved-error.ts";
import { remainingMs } from "../dispatch/window.ts";
import { findInline, type InlineAsked } from "../store/inline.ts";
import { callBounded, callSignalled } from "./bounded.ts";
import type { InlineHost } from "./host.ts";
import { type Intent, recordIntent } from "./intent.ts";
import { noteOrKeep, record, recordOrKeep, reportKept, reportOfLookup, reportOfRun } from "./report.ts";

/** What a host's functions are called with. */
export interface InlineContext {
  readonly effectId: string;
  /** 32 hex digits, the same in every call about this effect: an identity at the recipient, where it has none of its own. */
  readonly key: string;
  /** Of a reconcile, aborts at its deadline; of a run, when `runTimeoutMs` has passed and another process may ask. */
  readonly signal: AbortSignal;
}

export interface InlineFunctions<Proof extends NonNullable<unknown>> {
  /** Does it, and returns what the recipient named it: at most 64 KiB of JSON. Called once at most, for good. */
  readonly run: (context: InlineContext) => Promise<Proof>;
  /** Looks it up at the recipient: its proof, or null where the recipient has no record of it. Throws where it could not ask. */
  readonly reconcile: (context: InlineContext) => Promise<NoInfer<Proof> | null>;
}

export interface InlineOptions {
  /** How long a reconcile may take. Default 30,000. */
  readonly reconcileTimeoutMs?: number;
  /**
   * For so long another process takes the run to be running still, and does not ask. Default 30,000. 0 where a lease of the
   * host's own already keeps two processes apart.
   */
  readonly runTimeoutMs?: number;
}

/** Refuses what can never be asked for, before anything is read. @throws LedgerError `inline_invalid` */
export function checkInline<Proof extends NonNullable<unknown>>(
  asked: InlineAsked,
  functions: InlineFunctions<Proof>,
  { reconcileTimeoutMs = RECONCILE_TIMEOUT_MS, runTimeoutMs = RUN_TIMEOUT_MS }: InlineOptions,
): void {
  checkInlineName(asked);
  checkInlineFunctions(functions);
  checkInlineTimer("reconcileTimeoutMs", reconcileTimeoutMs, 1);
  checkInlineTimer("runTimeoutMs", runTimeoutMs, 0);
}

/** After somebody else's intent was met, it is there to be found. */
const LOOKS_MAX = 3;

/** Brings an effect to its end. @param key by which this process knows it */
export async function inlineEffect<Proof extends NonNullable<unknown>>(
  host: InlineHost,
  key: string,
  asked: InlineAsked,
  functions: InlineFunctions<Proof>,
  options: InlineOptions,
): Promise<InlineEnd<unknown>> {
  await sayWhatIsKept(host, key, asked);
  for (let look = 1; look <= LOOKS_MAX; look++) {
    const found = await host.connections.take(() => findInline(host.pool, asked));
    const next = decideCall(found, asked);
    if (next.next === "answer") return next.end;
    if (next.next === "reject") throw next.error;
    if (found) return askAbout(host, found, asked, functions, options.reconcileTimeoutMs ?? RECONCILE_TIMEOUT_MS);
    const runTimeoutMs = options.runTimeoutMs ?? RUN_TIMEOUT_MS;
    const intent = await recordIntent(host, asked, runTimeoutMs);
    if (intent) return runOnce(host, key, intent, asked, functions, runTimeoutMs);
  }
  throw new LedgerError("inline_contended", `${inWords(asked)} is neither there nor free`, { hint: "call it again" });
}

async function runOnce<Proof extends NonNullable<unknown>>(
  host: InlineHost,
  key: string,
  intent: Intent,
  asked: InlineAsked,
  { run }: InlineFunctions<Proof>,
  runTimeoutMs: number,
): Promise<InlineEnd<unknown>> {
  const { effectId, tokenHash } = intent;
  const context = { effectId, key: intent.key };
  const report = (decision: Decision) => reportOfRun(effectId, tokenHash, decision);
  // Compared in the very turn that calls: past its window another process may have asked, and found nothing.
  const left = runTimeoutMs === 0 ? null : remainingMs(intent.opened, runTimeoutMs);
  if (left !== null && left <= 0) {
    await recordOrKeep(host, key, report(decideNeverRun("late"))).catch(
      asUnresolved(effectId, asked, "that it never ran"),
    );
    throw neverRun(effectId, asked);
  }
  let proof: Proof;
  try {
    proof = await callSignalled((signal) => run({ ...context, signal }), left);
  } catch (thrown) {
    await noteOrKeep(host, key, report({ decision: "unresolved", reason: `run threw ${kindOf(thrown)}` }));
    throw unresolved(effectId, asked, "run threw", thrown);
  }
  const decision = decideProof(proof);
  if (decision.decision === "unresolved") {
    await noteOrKeep(host, key, report(decision));
    throw unresolved(effectId, asked, `run's proof cannot be kept: ${decision.reason}`);
  }
  return endOf(
    await recordOrKeep(host, key, report(decision)).catch(asUnresolved(effectId, asked, "its proof")),
    asked,
  );
}

async function askAbout<Proof extends NonNullable<unknown>>(
  host: InlineHost,
  { effectId, key }: InlineFacts,
  asked: InlineAsked,
  { reconcile }: InlineFunctions<Proof>,
  timeoutMs: number,
): Promise<InlineEnd<unknown>> {
  const begun = { monotonicMs: performance.now(), wallMs: Date.now() };
  const remaining = () => remainingMs(begun, timeoutMs);
  let answer: unknown;
  try {
    answer = await callBounded((signal) => reconcile({ effectId, key, signal }), timeoutMs, remaining);
  } catch (thrown) {
    throw unresolved(effectId, asked, "reconcile could not ask", thrown);
  }
  const found = decideFound(answer);
  if (found.decision === "unresolved") {
    throw unresolved(effectId, asked, `reconcile's proof cannot be kept: ${found.reason}`);
  }
  const report = reportOfLookup(effectId, found);
  return endOf(await record(host, report).catch(asUnresolved(effectId, asked, "what reconcile found")), asked);
}

/** What the record says now: the first outcome, whoever's it was. */
function endOf(facts: InlineFacts | null, asked: InlineAsked): InlineEnd<unknown> {
  const next = decideCall(facts, asked);
  if (next.next === "answer") return next.end;
  throw next.next === "reject" ? next.error : unresolved(facts?.effectId ?? "", asked, "it was not recorded");
}

async function sayWhatIsKept(host: InlineHost, key: string, asked: InlineAsked): Promise<void> {
  try {
    await reportKept(host, key);
  } catch (error) {
    throw unresolved("", asked, "what its run reported cannot be recorded yet", error);
  }
}

function unresolved(effectId: string, asked: InlineAsked, why: string, cause?: unknown): EffectUnresolvedError {
  return new EffectUnresolvedError(`${inWords(asked)} is unresolved: ${why}`, {
    ...(effectId === "" ? {} : { effectId }),
    hint: "call it again: it asks the recipient, and never runs again",
    ...(cause === undefined ? {} : { cause }),
  });
}

function asUnresolved(effectId: string, asked: InlineAsked, what: string): (error: unknown) => never {
  return (error) => {
    throw unresolved(effectId, asked, `${what} could not be recorded`, error);
  };
}
