/**
 * A reconciliation's run for one operation: asked for by somebody, started once, ended by its deadline, by SIGTERM or by
 * its end. It never extends a deadline, and what it did not reach stays as it was.
 */
import { describeThrown } from "../core/text.ts";
import type { RunningOperation, Runtime } from "../runtime.ts";
import { beginReconciliation, endReconciliation } from "../store/reconciliation.ts";
import { type InspectionSteps, inspect } from "./inspect.ts";

/** Recipients are asked about so many effects at a time. */
export const INSPECTIONS_AT_ONCE = 16;

/** Runs it. A job that comes again, or too late, does nothing. */
export async function reconcile(
  runtime: Runtime,
  steps: InspectionSteps,
  running: RunningOperation,
  reconciliationId: string,
): Promise<void> {
  const operation = running.operation.definition.name;
  const begun = await beginReconciliation(runtime.pool, reconciliationId, operation, runtime.worker);
  if (!begun) return;
  const ends = performance.now() + begun.remainingMs;
  const allowed = { allowFence: begun.allowFence, allowResubmit: begun.allowResubmit };
  const pending = begun.effects.values();
  const goesOn = () => !runtime.stopping && performance.now() < ends;
  const inspectNext = async (): Promise<void> => {
    for (const effect of pending) {
      if (!goesOn()) return;
      try {
        await inspect(runtime, steps, running, { reconciliationId, ...effect, ...allowed });
      } catch (error) {
        // One effect's fault (the database cut, say) keeps the others going; it stays as it was, and is shown so.
        runtime.log("error", `the inspection of effect ${effect.effectId} failed: ${describeThrown(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: INSPECTIONS_AT_ONCE }, inspectNext));
  const ended = performance.now() >= ends ? "expired" : runtime.stopping ? "stopped" : "finished";
  await endReconciliation(runtime.pool, reconciliationId, operation, ended);
}
