/**
 * Dispatch (protocol, section 6): the one call that an admission allows, within the window that opened when its COMMIT
 * was sent. Past the window it does not call. What the adapter reports is decided here and recorded by settle.
 */
import { type AdapterEnd, type AdapterSettled, callAdapter } from "../adapter/call.ts";
import type { Admitted } from "../admit/admit.ts";
import { LedgerError } from "../core/error.ts";
import type { AdapterContext, DispatchContext } from "../core/operation.ts";
import { type Decision, decideOutcome, keptText } from "../core/outcome.ts";
import type { DispatchReport } from "../core/report.ts";
import type { Secrets } from "../core/secret.ts";
import { describeThrown } from "../core/text.ts";
import { type RunningOperation, type Runtime, secretsOf } from "../runtime.ts";
import { authorityGap } from "../store/admission.ts";
import { recordNotes } from "../store/outcome.ts";
import { remainingMs } from "./window.ts";

export interface Dispatched {
  readonly decision: Decision;
  /** True where the adapter's promise has settled. */
  readonly ended: boolean;
  /** What an adapter that ignored its signal says at last, if it ever does. */
  readonly later: Promise<Decision> | null;
}

/** Dispatches an admitted effect, once. Never throws for what the adapter does. */
export async function dispatch(runtime: Runtime, running: RunningOperation, admitted: Admitted): Promise<Dispatched> {
  const { definition, contract } = running.operation;
  const secrets = secretsOf(runtime, running);
  const rules = { ...running.rules, secrets };
  const cancelled = new AbortController();
  const decide = (end: AdapterSettled<DispatchReport<unknown>>): Decision => {
    if (end.end === "threw") {
      const because = cancelled.signal.aborted ? "cancellation was requested; " : "";
      return { decision: "unresolved", reason: because + end.reason };
    }
    try {
      return decideOutcome(end.value, rules, admitted.reserved);
    } catch (thrown) {
      // No report at all, or one that cannot even be read: nothing may be concluded from it.
      return {
        decision: "unresolved",
        reason: `the adapter's report is unusable: ${describeThrown(thrown, (text) => secrets.strikeOut(text))}`,
      };
    }
  };
  // Compared in the very turn that calls: nothing may come between.
  const left = remainingMs(admitted.opened, contract.dispatchTimeoutMs);
  if (left <= 0) {
    const late: DispatchReport<unknown> = { report: "notSent", evidence: { code: "late" } };
    return { decision: decideOutcome(late, rules, admitted.reserved), ended: true, later: null };
  }
  runtime.dispatching.set(admitted.effect.id, cancelled);
  const end: AdapterEnd<DispatchReport<unknown>> = await callAdapter(
    (context) => definition.dispatch(admitted.effect, dispatchContext(runtime, running, admitted, context, secrets)),
    { timeoutMs: left, secrets, cancelled: cancelled.signal },
  ).finally(() => runtime.dispatching.delete(admitted.effect.id));
  if (end.end !== "timed_out") return { decision: decide(end), ended: true, later: null };
  return {
    decision: { decision: "unresolved", reason: end.reason },
    ended: end.later === null,
    later: end.later?.then(decide) ?? null,
  };
}

function dispatchContext(
  runtime: Runtime,
  running: RunningOperation,
  admitted: Admitted,
  context: AdapterContext,
  secrets: Secrets,
): DispatchContext {
  const { effect, tokenHash, opened } = admitted;
  return {
    ...context,
    async reference(value) {
      const detail = { reference: keptText(value, secrets, 200) };
      const note = { effectId: effect.id, tokenHash, event: "referenced", ended: false, detail } as const;
      await recordNotes(runtime.pool, runtime.worker, [note]);
    },
    async assertAuthority() {
      const gap = await authorityGap(runtime.pool, effect.id);
      if (gap !== null) throw new LedgerError("authority_gone", `authority is gone: ${gap}`, { effectId: effect.id });
      if (remainingMs(opened, running.operation.contract.dispatchTimeoutMs) <= 0) {
        throw new LedgerError("window_passed", "the dispatch window has passed", { effectId: effect.id });
      }
    },
  };
}
