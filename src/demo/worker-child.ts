/**
 * A worker as a process of its own, which the demo may kill. It ends with the demo however that ends: its channel closes
 * then. An end that nobody asked for is the demo's fault to report.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { extname, join } from "node:path";
import { LedgerError } from "../core/error.ts";
import { reached } from "./wait.ts";

/** From SIGTERM to the end: a dispatch window of four seconds and some room. */
const STOP_MS_MAX = 7_000;

/** What is kept of a worker's own error output, to be shown if it ends unasked. */
const STDERR_CHARACTERS_MAX = 2_000;

export interface WorkerChildOptions {
  readonly name: string;
  /** A file of `src/demo`, without its extension: `.ts` here, `.js` when built. */
  readonly entry: string;
  readonly folder: string;
  /** All of it: nothing of ours is inherited, so that no proxy and no secret of the host counts. */
  readonly environment: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly onMessage?: (message: unknown) => void;
  readonly onUnaskedEnd: (error: LedgerError) => void;
}

export class WorkerChild {
  readonly name: string;
  readonly processId: number;
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  #asked = false;

  private constructor(name: string, child: ChildProcess, processId: number, exited: Promise<unknown>) {
    this.name = name;
    this.#child = child;
    this.processId = processId;
    this.#exited = exited;
  }

  /** Starts it and returns at once; it says that it is ready by the message `{ ready: true }`. */
  static async start(options: WorkerChildOptions): Promise<WorkerChild> {
    const child = spawn(process.execPath, [join(import.meta.dirname, options.entry + extname(import.meta.filename))], {
      cwd: options.folder,
      env: options.environment,
      detached: true, // Ctrl-C reaches the demo only, which then ends its workers
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    const exited = new Promise((resolve) => child.once("exit", resolve));
    await once(child, "spawn");
    const worker = new WorkerChild(options.name, child, child.pid ?? 0, exited);
    let said = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-STDERR_CHARACTERS_MAX);
    });
    const ready = Promise.withResolvers<void>();
    child.on("message", (message) => {
      if (typeof message === "object" && "ready" in message) ready.resolve();
      else options.onMessage?.(message);
    });
    child.once("close", (code, signal) => {
      if (worker.#asked) return;
      const how = signal ?? `exit code ${code}`;
      const error = new LedgerError("demo_worker_ended", `${options.name} ended by ${how}: ${said.trim()}`);
      ready.reject(error);
      options.onUnaskedEnd(error);
    });
    try {
      await reached(`${options.name} is ready`, ready.promise, options.signal);
      return worker;
    } catch (error) {
      await worker.stop();
      throw error;
    }
  }

  /** SIGKILL: no handler runs, nothing is said. Returns the signal that the process ended by. */
  async kill(): Promise<string | null> {
    this.#asked = true;
    this.#child.kill("SIGKILL");
    await this.#exited;
    return this.#child.signalCode;
  }

  /** SIGTERM, and SIGKILL for one that does not end by it. Safe to repeat. */
  async stop(): Promise<void> {
    this.#asked = true;
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS_MAX);
    await this.#exited;
    clearTimeout(timer);
  }
}
