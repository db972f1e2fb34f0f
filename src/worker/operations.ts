/**
 * A worker's operations: loaded by graphile-worker's own loader from a folder, or handed over; checked, digested, and
 * registered in the ledger.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { getTasks, type Task } from "graphile-worker";
import { z } from "zod";
import { canonicalText } from "../core/canonical.ts";
import { sha256 } from "../core/digest.ts";
import { LedgerError } from "../core/error.ts";
import { type AnyOperation, isOperation } from "../core/operation.ts";
import type { RunningOperation } from "../runtime.ts";
import { silentLogger } from "../store/queue.ts";
import type { RegisteredOperation } from "../store/workers.ts";
import { implementationOfFile, implementationOfSource } from "./implementation.ts";

/** What a folder of task files holds: operations, and plain tasks that run beside them. */
export interface LoadedTasks {
  readonly operations: readonly RunningOperation[];
  readonly plain: ReadonlyMap<string, Task>;
}

/**
 * Loads a folder with graphile-worker's loader.
 * @throws LedgerError `tasks_missing` for no such folder, `operation_misnamed` where file and operation differ in name.
 */
export async function loadTasks(folder: string): Promise<LoadedTasks> {
  const files = await taskFiles(folder);
  const { tasks, release } = await getTasks({ logger: silentLogger }, folder);
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
        hint: "give the file the operation's name: it is the job's name too",
      });
    }
    operations.push(running(task, await implementationOfFile(files.get(name) ?? join(folder, name))));
  }
  await release();
  return { operations, plain };
}

async function taskFiles(folder: string): Promise<ReadonlyMap<string, string>> {
  try {
    const entries = await readdir(folder);
    const sources = entries.filter((entry) => /^[A-Za-z0-9_-]+\.[cm]?[jt]s$/.test(entry));
    return new Map(sources.map((entry) => [entry.replace(/\..*$/, ""), join(folder, entry)]));
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
function inputSchema(name: string, input: z.ZodType): object {
  try {
    return z.toJSONSchema(input, { io: "input" });
  } catch {
    return { $comment: `the input of ${name} has no JSON Schema`, type: "object" };
  }
}
