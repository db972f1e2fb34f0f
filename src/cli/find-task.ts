/** The task that a person names. */
import { LedgerError } from "../core/error.ts";
import type { Audit } from "../store/audit.ts";
import { readTask } from "../store/audit-control.ts";
import type { AuditTask } from "../store/audit-schema.ts";

/** @throws LedgerError `task_unknown` */
export async function findTask(audit: Audit, name: string): Promise<AuditTask> {
  const task = await readTask(audit, name);
  if (task) return task;
  throw new LedgerError("task_unknown", `no task is named ${JSON.stringify(name)}`, {
    hint: "correct the name; audit.tasks lists every task",
  });
}
