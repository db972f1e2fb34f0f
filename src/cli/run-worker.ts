/**
 * One worker in this process, from its start to its end by a signal. On SIGTERM and SIGINT it admits nothing more and lets
 * what runs use its window; a second signal changes nothing, and is told so. What an adapter leaves behind is held here,
 * because a program may set handlers for its whole process and a library may not.
 */
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

/**
 * Runs until a signal stops it.
 * @throws LedgerError `worker_ended` where the queue ended by itself, `worker_crashed` where something threw that nobody
 *   caught: it then stops like by a signal, because the state of whatever threw is not known any more.
 */
export async function runUntilSignal({ working }: StartedWorker, log: LogLine): Promise<void> {
  const stray = holdStrayFaults(log);
  const signals = listenForStop(log);
  try {
    const end = await Promise.race([signals.first, stray.crash, working.ended.then(() => null)]);
    if (end === null) {
      throw new LedgerError("worker_ended", "the queue ended by itself", {
        hint: "look at the lines above; start it again",
      });
    }
    const why = typeof end === "string" ? end : end.message;
    log("info", `${why}: admits nothing more, and waits for what is being dispatched until its deadline`);
    await working.stop();
    log("info", "stopped");
    if (end instanceof LedgerError) throw end;
  } finally {
    signals.release();
    stray.release();
  }
}

/** The first signal, and words for every later one. */
function listenForStop(log: LogLine): { readonly first: Promise<NodeJS.Signals>; release(): void } {
  const { promise: first, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let asked = false;
  const onSignal = (name: NodeJS.Signals) => {
    if (asked) log("warning", `${name}: it is stopping already; what runs has until its deadline`);
    asked = true;
    resolve(name);
  };
  for (const name of STOP_SIGNALS) process.on(name, onSignal);
  return {
    first,
    release() {
      for (const name of STOP_SIGNALS) process.off(name, onSignal);
    },
  };
}

const STOP_SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** A rejection that nobody awaits is logged; an exception that nobody catches ends the worker, but not its neighbours' windows. */
function holdStrayFaults(log: LogLine): { readonly crash: Promise<LedgerError>; release(): void } {
  const { promise: crash, resolve } = Promise.withResolvers<LedgerError>();
  const onRejection = (reason: unknown) =>
    log("error", `a rejection that nobody handled, left behind by an operation: ${describeThrown(reason)}`);
  const onException = (thrown: unknown) => {
    const message = `an exception that nobody caught, thrown by an operation: ${describeThrown(thrown)}`;
    log("error", message);
    resolve(new LedgerError("worker_crashed", message, { hint: "mend the operation; start it again", cause: thrown }));
  };
  // The program's own handler ends the process at once: not while effects are being dispatched.
  const others = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", onException);
  process.on("unhandledRejection", onRejection);
  return {
    crash,
    release() {
      process.off("unhandledRejection", onRejection);
      process.off("uncaughtException", onException);
      for (const other of others) process.on("uncaughtException", other);
    },
  };
}
