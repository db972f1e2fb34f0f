/** A worker's folder of operations, looked at before anything starts: a broken file is named, an empty folder refused. */
import { LedgerError } from "../core/error.ts";
import { loadTasks } from "../worker/operations.ts";

/** The names of the operations in a folder. @throws LedgerError `tasks_missing`, `tasks_empty`, `task_file_broken` */
export async function operationsIn(folder: string): Promise<readonly string[]> {
  const { operations, plain } = await load(folder);
  if (operations.length === 0 && plain.size === 0) {
    throw new LedgerError("tasks_empty", `the folder of operations ${folder} holds none`, {
      hint: "put one file for each operation there, named like it: charge_card.ts",
    });
  }
  return operations.map(({ operation }) => operation.definition.name);
}

async function load(folder: string): ReturnType<typeof loadTasks> {
  try {
    return await loadTasks(folder);
  } catch (cause) {
    if (cause instanceof LedgerError) throw cause;
    // graphile-worker's loader names the file in its message.
    throw new LedgerError("task_file_broken", cause instanceof Error ? cause.message : String(cause), {
      hint: "mend that file: a worker starts with all of its operations or not at all",
      cause,
    });
  }
}
