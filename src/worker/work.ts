/**
 * A worker process: graphile-worker on our queue's schema, with the ledger's job handlers. It keeps a heartbeat, frees
 * what a silent worker held, and on stop admits nothing more and lets what runs use its window.
 */

import { randomBytes } from "node:crypto";
import { EventEmitter } from "node:events";
import { hostname } from "node:os";
import { type Job, run, type TaskList, type WorkerEvents } from "graphile-worker";
import { clean } from "../cleanup/clean.ts";
import { LedgerError } from "../core/error.ts";
import { type SecretSource, Secrets } from "../core/secret.ts";
import { describeThrown } from "../core/text.ts";
import { reconcile } from "../reconcile/reconcile.ts";
import type { RunningOperation, Runtime } from "../runtime.ts";
import { openPool, wordConnectionError } from "../store/connection.ts";
import { QUEUE_SCHEMA } from "../store/migrate.ts";
import { finishAgain, type LogLine, queueLogger } from "../store/queue.ts";
import { boundStatements } from "../store/transaction.ts";
import { proveWorkerAccess } from "../store/worker-access.ts";
import { registerOperations, stopWorker } from "../store/workers.ts";
import { cleanly, cleanTask } from "./clean-fault.ts";
import { watchInFlight } from "./in-flight.ts";
import { openInspectionSteps } from "./inspections.ts";
import { openSteps, runJob } from "./job.ts";
import { startKeeping } from "./keeping.ts";
import { type LoadedTasks, registration } from "./operations.ts";
import { refusePlainTasks } from "./strict.ts";

export interface WorkOptions {
  readonly connectionString: string;
  readonly ledgerId: string;
  readonly tasks: LoadedTasks;
  readonly release: string;
  /** Effects under way at once. Default 20. */
  readonly concurrency?: number;
  readonly secrets: SecretSource;
  readonly log: LogLine;
  /** Logs the stack of a job that failed. Default: its message alone. */
  readonly debug?: boolean;
}

/** A worker that runs until it is stopped. */
export interface Working {
  readonly id: string;
  /** Ids of the effects that it has admitted and not reported on: in doubt, should this process end now. */
  inFlight(): readonly string[];
  /** Admits nothing more, waits for what runs, frees everything. May be called again. */
  stop(): Promise<void>;
  /** Settles when the worker has ended; rejects where the queue gave up. */
  readonly ended: Promise<void>;
}

/** Jobs that a busy worker took and cannot start go back after so long, so that a stuck handler holds up nobody. */
const LOCAL_QUEUE_TTL_MS = 1_000;

/** Beyond the largest window, a queue that stops and connections that close have so long. */
const STOP_GRACE_MS = 5_000;

/** Transactions of ours: loading, binding, admission and settlement, reconciliation, keeping. */
const POOL_MAX = 8;

/** Starts a worker: registers its operations, then takes jobs. */
export async function startWork(options: WorkOptions): Promise<Working> {
  const concurrency = options.concurrency ?? 20;
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 2_000) {
    throw new LedgerError("concurrency_invalid", `a concurrency of ${concurrency} is refused`, {
      hint: "give 1 to 2000",
    });
  }
  const secrets = secretsOfAll(options);
  // Nothing that anybody's operation threw is logged with a secret of any of them.
  const log: LogLine = (level, message) => options.log(level, secrets.strikeOut(message));
  const runtime = openRuntime({ ...options, log });
  const inFlight = new Set<string>();
  const queuePool = openPool({
    connectionString: options.connectionString,
    applicationName: "pg-effects queue",
    max: concurrency + 2, // what graphile-worker advises; opened on demand, and its batching needs few
    driverTypes: true,
  });
  finishAgain(queuePool);
  try {
    await proveWorkerAccess(runtime.pool);
    await refusePlainTasks(runtime.pool, options.tasks);
    await registerOperations(
      runtime.pool,
      options.tasks.operations.map((each) => registration(each, options.release)),
    );
    warnOfMissingSecrets(runtime);
    const keeping = startKeeping(runtime);
    const events: WorkerEvents = new EventEmitter();
    events.on("pool:create", ({ workerPool }) => keeping.named(workerPool.id));
    // A batch comes in no order; the event is emitted before its jobs are handed out.
    // A queue that shuts down by itself may never say that it has: what nobody asked for ends the worker.
    const gaveUp = Promise.withResolvers<never>();
    gaveUp.promise.catch(() => {}); // whoever waits for `ended` has it
    for (const event of ["pool:gracefulShutdown", "pool:forcefulShutdown"] as const) {
      events.on(event, ({ message }) => {
        if (!runtime.stopping) gaveUp.reject(new LedgerError("queue_ended", `the queue gave up: ${message}`));
      });
    }
    events.on("localQueue:getJobs:complete", ({ jobs }) => jobs.sort(byPriority));
    const runner = await run({
      pgPool: queuePool,
      taskList: taskList(runtime, options.tasks, secrets, inFlight),
      events,
      logger: queueLogger(log, { stacks: options.debug === true }),
      noHandleSignals: true, // its own handler ends the process by the signal after five seconds
      preset: {
        worker: {
          schema: QUEUE_SCHEMA,
          concurrentJobs: concurrency,
          pollInterval: 1_000,
          localQueue: { size: concurrency, ttl: LOCAL_QUEUE_TTL_MS },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          // Only a signal that nobody listens to here; each dispatch has a deadline of its own.
          gracefulShutdownAbortTimeout: largestWindow(options.tasks.operations),
        },
      },
    });
    let stopped: Promise<void> | undefined;
    const end = async () => {
      runtime.stopping = true;
      const bound = largestWindow(options.tasks.operations) + STOP_GRACE_MS;
      const ended = await within(runner.stop(), bound, log, "the queue did not stop cleanly");
      if (!ended) log("warning", `the queue did not stop within ${bound} ms; its jobs are freed`);
      await keeping.stop();
      try {
        await stopWorker(runtime.pool, runtime.worker);
      } finally {
        const closed = Promise.all([runtime.pool.end(), queuePool.end()]);
        await within(closed, STOP_GRACE_MS, log, "a connection did not close");
      }
    };
    const stop = () => {
      stopped ??= end();
      return stopped;
    };
    const ending = Promise.race([runner.promise, gaveUp.promise]);
    return {
      id: runtime.worker,
      inFlight: () => [...inFlight],
      stop,
      ended: ending.then(stop, (error: unknown) => stop().then(() => Promise.reject(error))),
    };
  } catch (error) {
    await Promise.all([runtime.pool.end(), queuePool.end()]);
    throw wordConnectionError(error);
  }
}

/** Said at start: a dispatch that lacks a secret fails after its admission, and leaves doubt that nobody needed. */
function warnOfMissingSecrets(runtime: Runtime): void {
  for (const { operation } of runtime.operations.values()) {
    const missing = operation.contract.secrets.filter((name) => !runtime.secrets[name]);
    if (missing.length === 0) continue;
    runtime.log(
      "warning",
      `${operation.definition.name}: no value here for ${missing.join(", ")}, declared in its contract`,
    );
  }
}

/** True once it has settled, with a rejection logged; false when it took too long. */
async function within(step: Promise<unknown>, ms: number, log: LogLine, otherwise: string): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const settled = step.then(
    () => true,
    (error: unknown) => {
      log("warning", `${otherwise}: ${describeThrown(error)}`);
      return true;
    },
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The order in which the queue picks: priority, then the moment, then the order of requests. */
function byPriority(a: Job, b: Job): number {
  return a.priority - b.priority || a.run_at.getTime() - b.run_at.getTime() || Number(a.id) - Number(b.id);
}

function openRuntime(options: WorkOptions): Runtime {
  return {
    worker: `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`,
    release: options.release,
    pool: boundStatements(
      openPool({
        connectionString: options.connectionString,
        applicationName: "pg-effects worker",
        max: POOL_MAX,
        pipeline: true,
        queryTimeoutMs: 60_000, // beyond every timeout of the server's: only a dead network gets there
      }),
    ),
    connectionString: options.connectionString,
    ledgerId: options.ledgerId,
    operations: new Map(options.tasks.operations.map((each) => [each.operation.definition.name, each])),
    secrets: options.secrets,
    log: options.log,
    dispatching: new Map(),
    remembered: null,
    stopping: false,
  };
}

/** Handlers for each operation's effects, reconciliations and cleanups, and plain tasks as they are. */
function taskList(runtime: Runtime, tasks: LoadedTasks, secrets: Secrets, inFlight: Set<string>): TaskList {
  const steps = watchInFlight(openSteps(runtime), inFlight);
  const inspections = openInspectionSteps(runtime);
  const list: TaskList = {};
  for (const [name, task] of tasks.plain) list[name] = cleanTask(task, secrets);
  for (const running of tasks.operations) {
    const { name } = running.operation.definition;
    list[name] = (payload) => cleanly(() => runJob(runtime, steps, running, idOf(payload, "effect_id")), secrets);
    list[`reconcile:${name}`] = (payload) =>
      cleanly(() => reconcile(runtime, inspections, running, idOf(payload, "reconciliation_id")), secrets);
    list[`cleanup:${name}`] = (payload) => cleanly(() => clean(runtime, running, idOf(payload, "effect_id")), secrets);
  }
  return list;
}

/** What all of its operations declare: plain tasks declare nothing, and run in the same process. */
function secretsOfAll({ tasks, secrets }: WorkOptions): Secrets {
  return new Secrets([...new Set(tasks.operations.flatMap(({ operation }) => operation.contract.secrets))], secrets);
}

function idOf(payload: unknown, field: string): string {
  const id = (payload as Record<string, unknown> | null)?.[field];
  if (typeof id !== "string" || !/^[0-9a-f-]{36}$/.test(id)) {
    throw new LedgerError("job_invalid", `a job came without ${field}`, {
      hint: "effects are requested with effects.enqueue",
    });
  }
  return id;
}

function largestWindow(operations: readonly RunningOperation[]): number {
  return Math.max(1_000, ...operations.map(({ operation }) => operation.contract.dispatchTimeoutMs));
}
