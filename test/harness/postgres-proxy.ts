/**
 * A fault proxy between a worker and its own Postgres, and the bytes by which the ledger's transactions are known on the
 * wire.
 */

import { type FaultProxy, startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { contains, type Match } from "../../src/demo/recipients/fault-rule.ts";
import type { TestLedger } from "./ledger.ts";

/** The request that writes admissions and commits them: both statements are sent in one turn. */
export const ADMISSION_COMMIT: Match = contains(/record_admitted[\s\S]*commit\0/);

/** The request that writes outcomes and commits them. */
export const OUTCOME_COMMIT: Match = contains(/record_outcomes[\s\S]*commit\0/);

/** The server's word that a COMMIT stands. */
export const COMMITTED: Match = contains("COMMIT\0");

/** The question what became of an admission whose COMMIT was not confirmed. */
export const FATE_QUESTION: Match = contains("admission_fate");

export interface PostgresProxy {
  readonly proxy: FaultProxy;
  /** The ledger's database, through the proxy. */
  readonly connectionString: string;
}

export async function startPostgresProxy(test: TestLedger): Promise<PostgresProxy> {
  const url = new URL(test.connectionString);
  const proxy = await startFaultProxy({ target: { host: url.hostname, port: Number(url.port || "5432") } });
  test.atEnd(() => proxy.stop());
  url.hostname = proxy.host;
  url.port = String(proxy.port);
  return { proxy, connectionString: url.href };
}
