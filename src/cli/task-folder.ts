/** A worker's folder of operations, looked at before anything starts: a broken file is named, an empty folder refused. */
import { LedgerError } from "../core/error.ts";
import { Secrets } from "../core/secret.ts";
import type { RunningOperation } from "../runtime.ts";
import type { LogLine } from "../store/queue.ts";
import { loadTasks } from "../worker/operations.ts";

/**
 * The names of the operations in a folder.
 * @throws LedgerError `tasks_missing`, `tasks_empty`, `task_file_broken`, `operation_misnamed`
 */
export async function operationsIn(folder: string, log: LogLine): Promise<LoadedFolder> {
  const { operations, plain, passedOver } = await loadTasks(folder, { log, secrets: process.env });
  if (operations.length === 0 && plain.size === 0) {
    const not = passedOver.length === 0 ? "" : `; ${passedOver.join("; ")}`;
    throw new LedgerError("tasks_empty", `the folder of operations ${folder} holds none${not}`, {
      hint: "put one file for each operation there, named like it: charge_card.ts",
    });
  }
  return {
    operations,
    names: operations.map(({ operation }) => operation.definition.name),
    secrets: new Secrets([...new Set(operations.flatMap(({ operation }) => operation.contract.secrets))], process.env),
  };
}

export interface LoadedFolder {
  readonly operations: readonly RunningOperation[];
  readonly names: readonly string[];
  /** Of all of its operations: what no line of this process may hold. */
  readonly secrets: Secrets;
}
