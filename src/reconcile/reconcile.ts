/**
 * A reconciliation's run for one operation: asked for by somebody, started once, ended by its deadline, by SIGTERM or by
 * its end. It never extends a deadline, and what it did not reach stays as it was.
 */
import { describeThrown } from "../core/text.ts";
import type { RunningOperation, Runtime } from "../runtime.ts";
import { beginReconciliation, endReconciliation } from "../store/reconciliation.ts";
import { inspect } from "./inspect.ts";

/** Recipients are asked about so many effects at a time. */
const INSPECTIONS_AT_ONCE = 8;

/** Runs it. A job that comes again, or too late, does nothing. */
export async function reconcile(runtime: Runtime, running: RunningOperation, reconciliationId: string): Promise<void> {
  const operation = running.operation.definition.name;
  const begun = await beginReconciliation(runtime.pool, reconciliationId, operation, runtime.worker);
  if (!begun) return;
  const ends = performance.now() + begun.remainingMs;
  const pending = begun.effects.values();
  const goesOn = () => !runtime.stopping && performance.now() < ends;
  const inspectNext = async (): Promise<void> => {
    for (const effectId of pending) {
      if (!goesOn()) return;
      try {
        await inspect(runtime, running, { reconciliationId, effectId, allowFence: begun.allowFence });
      } catch (error) {
        // One effect's fault (the database cut, say) keeps the others going; it stays as it was, and is shown so.
        runtime.log("error", `the inspection of effect ${effectId} failed: ${describeThrown(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: INSPECTIONS_AT_ONCE }, inspectNext));
  const ended = performance.now() >= ends ? "expired" : runtime.stopping ? "stopped" : "finished";
  await endReconciliation(runtime.pool, reconciliationId, operation, ended);
}
