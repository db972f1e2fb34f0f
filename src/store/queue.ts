/**
 * What of graphile-worker is not as we need it: its logger, and that it gives up at once. Its own success lines say nothing
 * that the ledger does not.
 */
import { Logger } from "graphile-worker";
import type pg from "pg";
import { isPassing, pause } from "./transaction.ts";

export type LogLine = (level: "error" | "warning" | "info", message: string) => void;

/** Passes errors and warnings on, and nothing else. A job that failed is one line; with `stacks` it has its stack too. */
export function queueLogger(log: LogLine, { stacks = false }: { readonly stacks?: boolean } = {}): Logger {
  return new Logger(() => (level, message, meta) => {
    if (level === "error" || level === "warning") log(level, (stacks ? null : failureWords(meta)) ?? message);
  });
}

/** Words of ours for a failed job, which graphile-worker logs with its stack; null for anything else. */
function failureWords(meta: Readonly<Record<string, unknown>> | undefined): string | null {
  const { failure, job, error } = (meta ?? {}) as {
    readonly failure?: unknown;
    readonly job?: { readonly task_identifier: string; readonly attempts: number; readonly max_attempts: number };
    readonly error?: unknown;
  };
  if (failure !== true || !job || !(error instanceof Error)) return null;
  return `a job of ${job.task_identifier} failed, attempt ${job.attempts} of ${job.max_attempts}: ${error.message}`;
}

/** Says nothing: for what reports its errors by throwing. */
export const silentLogger = queueLogger(() => {});

/** The statements by which graphile-worker ends a job. Run twice they change nothing: the job is gone, or no longer its. */
const FINISHING = /^(complete|fail)_job/;

/** Over some 15 seconds: a restart or a failover. */
const FINISH_TRIES_MAX = 8;

/**
 * Lets a worker outlive a session that is cut while a job ends: graphile-worker ends its whole worker at the first failure
 * to complete or fail a job. These statements are tried again, on other sessions of the pool.
 */
export function finishAgain(pool: pg.Pool): void {
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...given: unknown[]) => Promise<unknown>;
    const lasting = (...given: unknown[]) => {
      const [statement] = given;
      return given.length === 1 && isFinishing(statement)
        ? finish(pool, () => query(statement), statement)
        : query(...given);
    };
    client.query = lasting as typeof client.query;
  });
}

async function finish(pool: pg.Pool, first: () => Promise<unknown>, statement: pg.QueryConfig): Promise<unknown> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await (attempt === 1 ? first() : pool.query(statement));
    } catch (error) {
      if (!isPassing(error) || attempt >= FINISH_TRIES_MAX) throw error;
      await pause(Math.min(5_000, 100 * 2 ** attempt));
    }
  }
}

function isFinishing(statement: unknown): statement is pg.QueryConfig {
  const name = (statement as pg.QueryConfig | null)?.name;
  return typeof name === "string" && FINISHING.test(name);
}
