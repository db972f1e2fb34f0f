/**
 * Opening a resubmission (protocol, section 7): under the locks of an admission and by the same checks, since the request
 * that goes out once more may be what makes the effect happen. The inspection's row commits with them.
 */
import { whyNotResubmitted } from "../core/resubmission.ts";
import { type RunningOperation, type Runtime, runningFacts } from "../runtime.ts";
import { lockAdmission } from "../store/admission.ts";
import { beginInspections, firstDispatch, type InspectionItem, type Opened } from "../store/reconciliation.ts";
import { transact } from "../store/transaction.ts";

/** Opens it, or says why it may not be. A COMMIT that is not confirmed throws: nothing is sent then. */
export async function openResubmission(
  runtime: Runtime,
  running: RunningOperation,
  item: InspectionItem,
): Promise<Opened> {
  return transact<Opened>(runtime.pool, { isolation: "serializable", roots: [item.root] }, async (client) => {
    const { facts } = await lockAdmission(client, new Map([[item.effectId, runningFacts(runtime, running)]]));
    const [effect] = facts.effects;
    const { idempotency } = running.operation.contract;
    const first = await firstDispatch(client, item.effectId);
    const why = effect ? whyNotResubmitted(facts, effect, { idempotency, ...first }) : "unknown";
    if (why !== null) {
      runtime.log("info", `effect ${item.effectId} is not resubmitted: ${why}`);
      return { last: Promise.resolve(), result: () => ({ skipped: why }) };
    }
    let opened: Opened | undefined;
    const last = beginInspections(client, runtime.worker, [item]).then(([begun]) => {
      opened = begun;
    });
    return { last, result: () => opened ?? { skipped: "unknown" } };
  });
}
