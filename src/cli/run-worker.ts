/**
 * One worker in this process, from its start to its end by a signal. On SIGTERM and SIGINT it admits nothing more and lets
 * what runs use its window; a second signal changes nothing, and is told so.
 */
import { once } from "node:events";
import { LedgerError } from "../core/error.ts";
import { describeThrown } from "../core/text.ts";
import type { Ledger } from "../ledger.ts";
import type { LogLine } from "../store/queue.ts";
import { releaseOf } from "../worker/implementation.ts";
import type { Working } from "../worker/work.ts";
import { operationsIn } from "./task-folder.ts";

export interface StartedWorker {
  readonly working: Working;
  readonly release: string;
  readonly operations: readonly string[];
}

/** @throws LedgerError as `operationsIn` and `Ledger.work` do. */
export async function startWorker(
  ledger: Ledger,
  tasks: string,
  log: LogLine,
  concurrency?: number,
): Promise<StartedWorker> {
  const operations = await operationsIn(tasks);
  const release = await releaseOf(tasks, process.env);
  const working = await ledger.work({ tasks, log, ...(concurrency === undefined ? {} : { concurrency }) });
  return { working, release, operations };
}

/** Runs until a signal stops it. @throws LedgerError `worker_ended` where it ended by itself. */
export async function runUntilSignal({ working }: StartedWorker, log: LogLine): Promise<void> {
  const survive = (reason: unknown) => log("error", `a rejection that nobody handled: ${describeThrown(reason)}`);
  // An adapter that leaves a promise behind must not take its neighbours down; the ledger knows what it had admitted.
  process.on("unhandledRejection", survive);
  const signals = new AbortController();
  const first = Promise.race(
    (["SIGTERM", "SIGINT"] as const).map(async (name) => {
      await once(process, name, { signal: signals.signal });
      return name;
    }),
  );
  const onAgain = (name: string) => log("warning", `${name}: it is stopping already, what runs has until its deadline`);
  try {
    const end = await Promise.race([first, working.ended.then(() => null)]);
    if (end === null) {
      throw new LedgerError("worker_ended", "the queue ended by itself", {
        hint: "look at the lines above; start it again",
      });
    }
    process.on("SIGTERM", onAgain);
    process.on("SIGINT", onAgain);
    log("info", `${end}: admits nothing more, and waits for what is being dispatched until its deadline`);
    await working.stop();
    log("info", "stopped");
  } finally {
    signals.abort();
    process.off("SIGTERM", onAgain);
    process.off("SIGINT", onAgain);
    process.off("unhandledRejection", survive);
  }
}
