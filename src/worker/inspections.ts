/** What the inspections of a process do together: rows are opened and closed many in a transaction. */
import type { InspectionSteps } from "../reconcile/inspect.ts";
import type { Runtime } from "../runtime.ts";
import {
  beginInspections,
  type FoundItem,
  finishInspections,
  type InspectionItem,
  type Opened,
} from "../store/reconciliation.ts";
import { gateOf, transact } from "../store/transaction.ts";
import { Combiner } from "./combiner.ts";

/** The combiners of a worker's inspections. */
export function openInspectionSteps(runtime: Runtime): InspectionSteps {
  const begin = new Combiner<InspectionItem, Opened>((items) => {
    return transact<readonly Opened[]>(runtime.pool, { isolation: "read committed" }, async (client) => {
      let opened: readonly Opened[] = [];
      const last = beginInspections(client, runtime.worker, items).then((begun) => {
        opened = begun;
      });
      return { last, result: () => opened };
    });
  });
  const part = ({ root }: FoundItem) => gateOf(root);
  const finish = new Combiner<FoundItem, undefined>(
    async (items) => {
      const roots = items.map(({ root }) => root);
      await transact(runtime.pool, { isolation: "read committed", roots }, async (client) => ({
        last: finishInspections(client, runtime.worker, items),
        result: () => undefined,
      }));
      return items.map(() => undefined);
    },
    undefined,
    undefined,
    part,
  );
  return { begin: (item) => begin.submit(item), finish: (item) => finish.submit(item) };
}
