/** Operations of `tasks/` with the demo's timeouts of seconds: the same adapter, and a contract that waits less long. */
import { defineOperation, LedgerError, type Operation } from "../index.ts";

/** A lookup or a fence here takes far less than a second. */
export const RECONCILE_TIMEOUT_MS = 8_000;

/** @throws LedgerError `operation_invalid` for an operation without `prepare`: all of ours have one. */
export function withWindow<Input, Proof, Payload, Given = Input>(
  operation: Operation<Input, Proof, Payload, Given>,
  dispatchTimeoutMs: number,
): Operation<Input, Proof, Payload, Given> {
  const { prepare, contract } = operation.definition;
  if (!prepare) throw new LedgerError("operation_invalid", `${operation.definition.name} has no prepare`);
  return defineOperation<Input, Proof, Payload, Given>({
    ...operation.definition,
    prepare,
    contract: { ...contract, dispatchTimeoutMs, reconcileTimeoutMs: RECONCILE_TIMEOUT_MS },
  });
}
