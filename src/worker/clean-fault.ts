/**
 * What a job throws reaches the queue as clean, bounded text without secrets: the queue keeps it as `last_error`, and
 * U+0000 in a message would make that very write fail. It never swallows a fault.
 */
import type { Task } from "graphile-worker";
import type { Secrets } from "../core/secret.ts";
import { cleanText, describeThrown } from "../core/text.ts";

/** What is kept of a stack, in characters: the innermost frames. */
const STACK_MAX = 4_000;

/** A handler of ours, whose faults are described. */
export async function cleanly(job: () => Promise<void>, secrets: Secrets): Promise<void> {
  try {
    await job();
  } catch (fault) {
    throw new Error(describeThrown(fault, (text) => secrets.strikeOut(text)));
  }
}

/** A plain task as it is, but for what it throws. Of its entries, where it takes several, each is rejected by itself. */
export function cleanTask(task: Task, secrets: Secrets): Task {
  return async (payload, helpers) => {
    try {
      const result: unknown = await task(payload, helpers);
      if (!Array.isArray(payload) || !Array.isArray(result)) return result as undefined;
      return result.map((entry: unknown) =>
        Promise.resolve(entry).catch((fault: unknown) => {
          throw cleanFault(fault, secrets);
        }),
      ) as unknown as undefined;
    } catch (fault) {
      throw cleanFault(fault, secrets);
    }
  };
}

/** The same message where there is nothing to clean, so that whoever reads `last_error` finds what was thrown. */
export function cleanFault(fault: unknown, secrets: Secrets): Error {
  const strikeOut = (text: string) => secrets.strikeOut(text);
  try {
    if (fault instanceof Error && fault.message !== "") {
      const clean = new Error(cleanText(strikeOut(fault.message)));
      const lines = strikeOut(String(fault.stack)).slice(0, STACK_MAX).split("\n");
      clean.stack = lines.map((line) => cleanText(line)).join("\n");
      return clean;
    }
  } catch {
    // an Error that cannot be read: described below
  }
  const clean = new Error(describeThrown(fault, strikeOut));
  delete clean.stack; // ours, and of no use
  return clean;
}
