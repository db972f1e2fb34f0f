/** What one worker process works with: its connections, its operations, and the steps that its jobs share. */
import type pg from "pg";
import type { Running } from "./core/facts.ts";
import type { AnyOperation } from "./core/operation.ts";
import type { ProofRules } from "./core/outcome.ts";
import { type SecretSource, Secrets } from "./core/secret.ts";
import type { LogLine } from "./store/queue.ts";

/** An operation with what identifies the code that runs it. */
export interface RunningOperation {
  readonly operation: AnyOperation;
  /** Digest of the operation's file, the project files that it imports and the lock file. */
  readonly implementation: string;
  readonly rules: Omit<ProofRules, "secrets">;
}

export interface Runtime {
  /** This process's name in the record: host, process id and a random part. */
  readonly worker: string;
  readonly release: string;
  readonly pool: pg.Pool;
  readonly connectionString: string;
  readonly ledgerId: string;
  readonly operations: ReadonlyMap<string, RunningOperation>;
  readonly secrets: SecretSource;
  readonly log: LogLine;
  /** Dispatches under way, by effect: aborted where somebody asked to cancel. */
  readonly dispatching: Map<string, AbortController>;
  /** The newest admission that was confirmed to this process: where it is gone, a commit was lost (protocol, section 10). */
  remembered: string | null;
  /** True from SIGTERM on: nothing more is admitted. */
  stopping: boolean;
}

/** The secrets of an operation's adapter. */
export function secretsOf(runtime: Runtime, running: RunningOperation): Secrets {
  return new Secrets(running.operation.contract.secrets, runtime.secrets);
}

/** What an admission compares with what was bound. */
export function runningFacts(runtime: Runtime, { implementation, operation }: RunningOperation): Running {
  const { precondition, preparedWithinMs } = operation.contract;
  return { implementation, release: runtime.release, precondition, preparedWithinMs };
}
