/**
 * A worker as a process of its own, so that it can be stopped, killed and frozen as operating systems do it. The other end
 * is worker-process.ts.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const ENTRY = fileURLToPath(new URL("./worker-process.ts", import.meta.url));

/** The folder of operations that child processes run by default. */
export const WORKER_TASKS = fileURLToPath(new URL("../fixtures/worker-tasks", import.meta.url));

export interface WorkerChildOptions {
  readonly connectionString: string;
  /** Folder of operations. Default: test/fixtures/worker-tasks. */
  readonly tasks?: string;
  readonly concurrency?: number;
}

export interface WorkerChild {
  /** The worker's name in the record. */
  readonly id: string;
  readonly pid: number;
  signal(signal: NodeJS.Signals): void;
  /** Asks it to end by SIGTERM, and returns when it has begun to. */
  terminate(): Promise<void>;
  /** Its exit code, or the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>;
  /** True once it has ended, by whatever. */
  ended(): boolean;
  /** What it printed. */
  output(): string;
}

/** Starts a worker process and waits until it takes jobs. */
export async function startWorkerChild(options: WorkerChildOptions): Promise<WorkerChild> {
  const child = fork(ENTRY, [], {
    execArgv: [], // not the test runner's own
    env: {
      PATH: process.env.PATH,
      PG_EFFECTS_RELEASE: "test",
      WORKER_DATABASE: options.connectionString,
      WORKER_TASKS: options.tasks ?? WORKER_TASKS,
      WORKER_CONCURRENCY: String(options.concurrency ?? 20),
    },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const printed: string[] = [];
  child.stdout?.on("data", (chunk) => printed.push(String(chunk)));
  child.stderr?.on("data", (chunk) => printed.push(String(chunk)));
  const exited = once(child, "exit").then(([code, signal]) => (signal ?? code) as number | NodeJS.Signals);
  const id = await Promise.race([
    readiness(child),
    exited.then((end) => Promise.reject(new Error(`the worker process ended with ${end}:\n${printed.join("")}`))),
  ]);
  return {
    id,
    pid: child.pid as number,
    signal: (signal) => child.kill(signal),
    async terminate() {
      const begun = once(child, "message");
      child.kill("SIGTERM");
      await begun;
    },
    exited,
    ended: () => child.exitCode !== null || child.signalCode !== null,
    output: () => printed.join(""),
  };
}

async function readiness(child: ChildProcess): Promise<string> {
  const [message] = await once(child, "message");
  return (message as { worker: string }).worker;
}
