/** Who is there to do something: workers with a fresh heartbeat, and operations that none of them has. */
import type { Audit } from "../store/audit.ts";
import { type AuditWorker, readWorkers, SILENT_MS } from "../store/audit-ledger.ts";

/** Workers that were heard of within 15 seconds. */
export async function liveWorkers(audit: Audit): Promise<readonly AuditWorker[]> {
  return (await readWorkers(audit)).filter(isLive);
}

export function isLive({ silent_ms }: AuditWorker): boolean {
  return silent_ms <= SILENT_MS;
}

/** Those of the operations that no live worker has. */
export async function withoutWorker(audit: Audit, operations: readonly string[]): Promise<readonly string[]> {
  const workers = await liveWorkers(audit);
  return operations.filter((operation) => !workers.some((worker) => worker.operations.includes(operation)));
}
