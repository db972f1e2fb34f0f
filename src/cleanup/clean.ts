/**
 * Cleanup (protocol, section 6): what a settled effect left of ours at its recipient is removed. The obligation stands until
 * an adapter has shown that it is done; it is never inferred, and whatever comes of it changes no outcome.
 */
import { type AdapterEnd, callAdapter } from "../adapter/call.ts";
import { boundEffect } from "../adapter/effect.ts";
import { keptText, storeEvidence } from "../core/outcome.ts";
import type { Cleaned } from "../core/report.ts";
import type { Secrets } from "../core/secret.ts";
import { describeThrown } from "../core/text.ts";
import { type RunningOperation, type Runtime, secretsOf } from "../runtime.ts";
import { beginCleanup, type CleanupEnd, finishCleanup, queueCleanup } from "../store/cleanup.ts";

/** Beyond its timeout a try has so long to end and to be recorded, before another one may begin. */
const RECORD_GRACE_MS = 10_000;

/** Runs one effect's cleanup, once. Throws only for faults: the queue, or the next minute's look, has it tried again. */
export async function clean(runtime: Runtime, running: RunningOperation, effectId: string): Promise<void> {
  if (runtime.stopping) return queueCleanup(runtime.pool, effectId);
  const { definition, contract } = running.operation;
  const begun = await beginCleanup(runtime.pool, effectId, {
    // What this code may look up it knows well enough to clean up. Without a cleanup it has none to offer.
    versions: definition.cleanup ? [definition.version, ...(definition.reconciles ?? [])] : [],
    longestMs: contract.reconcileTimeoutMs + RECORD_GRACE_MS,
  });
  if ("skipped" in begun) return;
  const secrets = secretsOf(runtime, running);
  const effect = boundEffect(effectId, begun.key, begun.attempt, begun);
  const answer = await callAdapter<Cleaned | undefined>((context) => definition.cleanup?.(effect, context), {
    timeoutMs: contract.reconcileTimeoutMs,
    secrets,
  });
  const end = endOf(answer, secrets);
  await finishCleanup(runtime.pool, runtime.worker, effectId, begun.tries, end);
  if ("fault" in end) runtime.log("warning", `the cleanup of effect ${effectId} is still owed: ${end.fault}`);
}

/** Only a report that says so is a cleanup. */
function endOf(answer: AdapterEnd<Cleaned | undefined>, secrets: Secrets): CleanupEnd {
  if (answer.end !== "returned") return { fault: keptText(answer.reason, secrets, 500) };
  try {
    const { value } = answer;
    if (value?.report === "cleaned") return { evidence: storeEvidence(value.evidence, secrets) };
    return { fault: "the adapter gave no report that it is done" };
  } catch (thrown) {
    return { fault: `the adapter's report is unusable: ${describeThrown(thrown, (text) => secrets.strikeOut(text))}` };
  }
}
