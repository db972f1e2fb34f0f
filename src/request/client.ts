/**
 * The caller's own connection, whichever it is: a pg client or pool, or a Kysely transaction. A statement of ours runs in
 * the transaction that the caller has open there.
 */
import { CompiledQuery, type Kysely } from "kysely";
import type { Statement } from "./request.ts";

/** Anything that runs text with values, as pg's Client, PoolClient and Pool do. */
export interface PgClient {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}

/** A pg client or pool, or a Kysely instance or transaction of any schema. */
// biome-ignore lint/suspicious/noExplicitAny: a caller's Kysely may have any database type
export type CallersClient = PgClient | Pick<Kysely<any>, "executeQuery">;

/** Runs a statement on the caller's connection and returns its rows. */
export async function runStatement<Row>(client: CallersClient, statement: Statement): Promise<readonly Row[]> {
  if ("executeQuery" in client) {
    const { rows } = await client.executeQuery<Row>(CompiledQuery.raw(statement.text, [...statement.values]));
    return rows;
  }
  const { rows } = await client.query(statement.text, [...statement.values]);
  return rows as Row[];
}
