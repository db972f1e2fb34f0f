/**
 * Runs one change of authority from the command line, and reads on a connection of its own. What the change means is the
 * SQL function's; here it is only run, for good or to be looked at and rolled back.
 */
import type pg from "pg";
import { openClient, wordConnectionError } from "./connection.ts";
import { lookAndRollBack, runAlone } from "./transaction.ts";

/** What a change of authority meets, as the functions of migrations/0013_control.sql return it. */
export interface ConcernedRow {
  readonly waiting: number;
  /** Ids of what is out already: nothing calls it back. */
  readonly in_flight: readonly string[];
  readonly unresolved: number;
  /** Of what waits, in ISO 8601. */
  readonly first_expires_at: string | null;
}

/** A budget as effects.set_budget returns it: amounts as decimal strings. */
export interface BudgetRow {
  readonly task: string;
  readonly unit: string;
  readonly limit: string;
  readonly reserved: string;
  readonly spent: string;
  readonly overrun: string;
  readonly left: string;
}

export interface Change {
  readonly text: string;
  readonly values: readonly unknown[];
  /** Does it, reads what it returns, and rolls it back. */
  readonly dryRun: boolean;
}

/** Runs a change and returns its first row. @throws LedgerError with the function's own code and hint. */
export async function runChange<Row extends object>(connectionString: string, change: Change): Promise<Row> {
  return onClient(connectionString, "pg-effects control", (client) => runChangeOn<Row>(client, change));
}

/** The same on a connection that is there, for many changes one after the other. Errors come as the driver has them. */
export async function runChangeOn<Row extends object>(client: pg.Client, change: Change): Promise<Row> {
  const { rows } = change.dryRun
    ? await lookAndRollBack(client, () => client.query<Row>(change.text, [...change.values]))
    : await runAlone<Row>(client, change.text, change.values);
  return rows[0] as Row;
}

/** Opens one connection, runs the body on it, and closes it, however the body ends. */
export async function onClient<Result>(
  connectionString: string,
  applicationName: string,
  body: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = await openClient(connectionString, applicationName);
  try {
    return await body(client);
  } catch (error) {
    throw wordConnectionError(error);
  } finally {
    await client.end();
  }
}
