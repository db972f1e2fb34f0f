/**
 * What a worker process works with, without its queue: for tests that call one step themselves. The pool can be wrapped,
 * so that its transactions run as they must never need to.
 */
import type pg from "pg";
import type { AnyOperation } from "../../src/core/operation.ts";
import type { Runtime } from "../../src/runtime.ts";
import { openPool } from "../../src/store/connection.ts";
import { runOperations } from "../../src/worker/operations.ts";
import type { TestLedger } from "./ledger.ts";

/** Changes the text of every statement of a simple query. */
export type Rewrite = (text: string) => string;

export function openRuntime(test: TestLedger, worker: string, operation: AnyOperation, rewrite?: Rewrite): Runtime {
  const pool = openPool({ connectionString: test.connectionString, applicationName: worker, max: 4, pipeline: true });
  if (rewrite) pool.on("connect", (client) => wrap(client, rewrite));
  test.atEnd(() => pool.end());
  return {
    worker,
    release: "test",
    pool,
    connectionString: test.connectionString,
    ledgerId: test.ledger.id,
    operations: new Map(runOperations([operation]).map((running) => [running.operation.definition.name, running])),
    secrets: {},
    log: (level, message) => {
      throw new Error(`${level}: ${message}`);
    },
    dispatching: new Map(),
    remembered: null,
    stopping: false,
  };
}

function wrap(client: pg.PoolClient, rewrite: Rewrite): void {
  const query = client.query.bind(client) as (...given: unknown[]) => unknown;
  const rewritten = (text: unknown, ...rest: unknown[]) =>
    query(typeof text === "string" ? rewrite(text) : text, ...rest);
  client.query = rewritten as typeof client.query;
}
