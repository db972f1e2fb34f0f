/**
 * One worker in this process, from its start to its end by a signal. On SIGTERM and SIGINT it admits nothing more and lets
 * what runs use its window; a second signal changes nothing, and is told so. What an adapter leaves behind is held here,
 * because a program may set handlers for its whole process and a library may not.
 */
import { LedgerError } from "../core/error.ts";
import type { Secrets } from "../core/secret.ts";
import { describeThrown } from "../core/text.ts";
import type { Ledger } from "../ledger.ts";
import type { LogLine } from "../store/queue.ts";
import { cleanFault } from "../worker/clean-fault.ts";
import { releaseOf } from "../worker/implementation.ts";
import type { Working } from "../worker/work.ts";
import { EXIT } from "./exit-code.ts";
import { operationsIn } from "./task-folder.ts";

export interface StartedWorker {
  readonly working: Working;
  readonly release: string;
  readonly operations: readonly string[];
  /** Of its operations: what no line of this process may hold. */
  readonly secrets: Secrets;
}

export interface StartOptions {
  readonly tasks: string;
  readonly log: LogLine;
  readonly concurrency?: number | undefined;
  /** Logs stacks. */
  readonly debug: boolean;
}

/** @throws LedgerError as `operationsIn` and `Ledger.work` do. */
export async function startWorker(ledger: Ledger, options: StartOptions): Promise<StartedWorker> {
  const { tasks, log, concurrency, debug } = options;
  const { names, secrets } = await operationsIn(tasks, log);
  const release = await releaseOf(tasks, process.env);
  const working = await ledger.work({ tasks, log, debug, ...(concurrency === undefined ? {} : { concurrency }) });
  return { working, release, operations: names, secrets };
}

/**
 * Runs until a signal stops it.
 * @param ground resolves where what it stands on is gone, and it cannot go on
 * @throws LedgerError `worker_ended` where the queue ended by itself, `worker_crashed` where something threw that nobody
 *   caught: it then stops like by a signal, because the state of whatever threw is not known any more. Or the ground's.
 */
export async function runUntilSignal(
  { working, secrets }: StartedWorker,
  log: LogLine,
  ground: Promise<LedgerError> = new Promise(() => {}),
): Promise<void> {
  const stray = holdStrayFaults(log, secrets);
  const signals = listenForStop(log);
  const exit = watchExit(working, log);
  try {
    const end = await Promise.race([signals.first, stray.crash, ground, working.ended.then(() => null)]);
    if (end === null) {
      throw new LedgerError("worker_ended", "the queue ended by itself", {
        hint: "look at the lines above; start it again",
      });
    }
    const why = typeof end === "string" ? end : end.message;
    log("info", `${why}: admits nothing more, and waits for what is being dispatched until its deadline`);
    await stopAfter(end, working, log);
    if (end instanceof LedgerError) throw end;
  } finally {
    exit.release();
    signals.release();
    stray.release();
  }
}

/** Why it stops is what is reported then: that stopping failed too (the database is gone, say) is only logged. */
async function stopAfter(end: NodeJS.Signals | LedgerError, working: Working, log: LogLine): Promise<void> {
  try {
    await working.stop();
    log("info", "stopped");
  } catch (error) {
    if (!(end instanceof LedgerError)) throw error;
    log("warning", `it did not stop cleanly: ${describeThrown(error)}`);
  }
}

/** An operation that calls process.exit leaves doubt behind: said at once, and never with exit code 0. */
function watchExit(working: Working, log: LogLine): { release(): void } {
  const onExit = (code: number) => {
    const left = working.inFlight();
    const what = left.length === 0 ? "nothing was being dispatched" : `left unresolved: ${left.join(", ")}`;
    log("error", `process.exit(${code}) was called, by an operation or what it imports; ${what}`);
    if (code === EXIT.done) process.exitCode = EXIT.fault;
  };
  process.on("exit", onExit);
  return { release: () => process.off("exit", onExit) };
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
function holdStrayFaults(log: LogLine, secrets: Secrets): { readonly crash: Promise<LedgerError>; release(): void } {
  const { promise: crash, resolve } = Promise.withResolvers<LedgerError>();
  const words = (thrown: unknown) => describeThrown(thrown, (text) => secrets.strikeOut(text));
  const onRejection = (reason: unknown) =>
    log("error", `a rejection that nobody handled, left behind by an operation: ${words(reason)}`);
  const onException = (thrown: unknown) => {
    const message = `an exception that nobody caught, thrown by an operation: ${words(thrown)}`;
    log("error", message);
    const cause = cleanFault(thrown, secrets);
    resolve(new LedgerError("worker_crashed", message, { hint: "mend the operation; start it again", cause }));
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
