/**
 * A worker's operations: loaded by graphile-worker's own loader from a folder, or handed over; checked, digested, and
 * registered in the ledger.
 */
import { join } from "node:path";
import { type FileDetails, getTasks, type Task } from "graphile-worker";
import { z } from "zod";
import { canonicalText } from "../core/canonical.ts";
import { sha256 } from "../core/digest.ts";
import { LedgerError } from "../core/error.ts";
import { type AnyOperation, isOperation } from "../core/operation.ts";
import { describeThrown } from "../core/text.ts";
import type { RunningOperation } from "../runtime.ts";
import { silentLogger } from "../store/queue.ts";
import type { RegisteredOperation } from "../store/workers.ts";
import { implementationOfFile, implementationOfSource } from "./implementation.ts";
import { type ImportBounds, importTaskFile } from "./task-import.ts";
import { loadedFile, oddNames, passedOver } from "./task-names.ts";

/** What a folder of task files holds: operations, and plain tasks that run beside them. */
export interface LoadedTasks {
  readonly operations: readonly RunningOperation[];
  readonly plain: ReadonlyMap<string, Task>;
  /** Files that look like operations and were not loaded, in words. */
  readonly passedOver: readonly string[];
}

/** Of a worker without a folder. */
export const NO_TASKS: LoadedTasks = { operations: [], plain: new Map(), passedOver: [] };

const SILENT: ImportBounds = { log: () => {}, secrets: process.env };

/**
 * Loads a folder with graphile-worker's loader.
 * @throws LedgerError `tasks_missing` for no such folder, `task_file_broken` for a file that cannot be loaded,
 *   `operation_misnamed` where file and operation differ in name.
 */
export async function loadTasks(folder: string, bounds: ImportBounds = SILENT): Promise<LoadedTasks> {
  const skipped = [...(await oddNamesIn(folder))];
  const files = new Map<string, string>();
  const { tasks, release } = await getTasks(
    {
      logger: silentLogger,
      preset: {
        plugins: [
          importingPlugin(async (name, found) => {
            skipped.push(...passedOver(found, folder));
            const file = loadedFile(found);
            if (!file) return;
            files.set(name, file.fullPath);
            await importTaskFile(file.fullPath, bounds);
          }),
        ],
      },
    },
    folder,
  ).catch((fault: unknown) => {
    if (fault instanceof LedgerError) throw fault;
    // What was imported is no function: the loader says so, and names the file.
    throw new LedgerError("task_file_broken", describeThrown(fault), {
      hint: "export by default what defineOperation returns",
    });
  });
  const operations: RunningOperation[] = [];
  const plain = new Map<string, Task>();
  for (const [name, task] of Object.entries(tasks)) {
    if (!task) continue;
    if (!isOperation(task)) {
      plain.set(name, task);
      continue;
    }
    if (task.definition.name !== name) {
      throw new LedgerError("operation_misnamed", `the file ${name} holds the operation ${task.definition.name}`, {
        hint: "give the file the operation's name, at the top of the folder: it is the job's name too",
      });
    }
    operations.push(running(task, await implementationOfFile(files.get(name) ?? join(folder, name))));
  }
  await release();
  return { operations, plain, passedOver: skipped };
}

/** Sees each task's files before graphile-worker's own plugin imports one: what that throws names no line. */
function importingPlugin(
  see: (name: string, files: readonly FileDetails[]) => Promise<void>,
): NonNullable<GraphileConfig.Preset["plugins"]>[number] {
  return {
    name: "PgEffectsImportPlugin",
    version: "1",
    worker: {
      hooks: {
        loadTaskFromFiles: {
          before: ["LoadTaskFromJsPlugin"],
          callback: (_context, { taskIdentifier, fileDetailsList }) => see(taskIdentifier, fileDetailsList),
        },
      },
    },
  };
}

async function oddNamesIn(folder: string): Promise<readonly string[]> {
  try {
    return await oddNames(folder);
  } catch (error) {
    throw new LedgerError("tasks_missing", `the folder of operations ${folder} cannot be read`, {
      hint: "give --tasks the folder that holds one file for each operation",
      cause: error,
    });
  }
}

/** Operations handed over in the process. */
export function runOperations(operations: readonly AnyOperation[]): readonly RunningOperation[] {
  return operations.map((operation) => running(operation, implementationOfSource(operation)));
}

function running(operation: AnyOperation, implementation: string): RunningOperation {
  const { proof, contract } = operation.definition;
  return {
    operation,
    implementation,
    rules: {
      contract: operation.contract,
      parseProof: (candidate) => (proof ? proof.parse(candidate) : candidate),
      reference: contract?.reference as ((proof: never) => string) | undefined,
    },
  };
}

/** An operation as the ledger registers it. */
export function registration(running: RunningOperation, release: string): RegisteredOperation {
  const { definition, contract } = running.operation;
  return {
    operation: definition.name,
    version: definition.version,
    contract,
    contract_digest: sha256(canonicalText(contract)).toString("hex"),
    input_schema: inputSchema(definition.name, definition.input),
    implementation: running.implementation,
    release,
  };
}

/** The input as JSON Schema; a schema that has none says so, and the operation still runs. */
export function inputSchema(name: string, input: z.ZodType): object {
  try {
    return z.toJSONSchema(input, { io: "input" });
  } catch {
    return { $comment: `the input of ${name} has no JSON Schema`, type: "object" };
  }
}
