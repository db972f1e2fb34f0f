/**
 * Transactions: the one file that names isolation levels, decides when to try again, and tells a confirmed COMMIT from
 * one that is not (protocol, section 5). It never calls out and never decides about an effect.
 */
import type pg from "pg";
import { LedgerError } from "../core/error.ts";
import { driverCode } from "./connection.ts";

/** How many empty gate tables there are (migration 0001). */
export const GATES = 8;

/** Bounds of every transaction of ours; local to it, so that nothing leaks behind a pooler. */
const LOCAL_SETTINGS = [
  "set local synchronous_commit = on", // an admission that may be lost is no admission; a replica's wait counts
  "set local lock_timeout = '10s'", // longer than any of our transactions takes
  "set local statement_timeout = '30s'",
  "set local idle_in_transaction_session_timeout = '10s'", // a suspended process lets its locks go
].join("; ");

/**
 * Plans: index look-ups only. SERIALIZABLE conflicts on what was scanned, so a small table read without its index
 * conflicts with everybody; and a plan made while a table was small must not scan it once it is large.
 */
const INDEX_ONLY = [
  "set local enable_seqscan = off",
  "set local jit = off", // a scan that is switched off costs so much on paper that every statement would be compiled
].join("; ");

/** A server that gives no answer for so long, in milliseconds, is behind a dead network that nobody told us about. */
const ANSWER_MS_MAX = 30_000;

/** Conflicts are tried again so often; each time all that was read is read again. */
const TRIES_MAX = 20;
const CONFLICTS = new Set(["40001", "40P01", "55P03"]);

export interface TransactionOptions {
  readonly isolation: "serializable" | "read committed";
  /** The root tasks concerned: their gates are locked, in order, before the snapshot. */
  readonly roots?: readonly string[];
  /** What the planner finds best: for what runs alone, and is read committed. */
  readonly anyPlan?: true;
}

/** COMMIT was sent and its confirmation never came: it may stand or not. Who asked must not act on it. */
export class CommitUnconfirmedError extends LedgerError {
  constructor(cause: unknown) {
    super("commit_unconfirmed", "COMMIT was not confirmed", {
      hint: "the record says whether it stands; it is read before anything else happens",
      cause,
    });
  }
}

/**
 * Runs a body in a transaction and tries conflicts again. The body returns its last statement without waiting for it,
 * so that COMMIT follows it in the same packet.
 * @throws CommitUnconfirmedError when COMMIT was sent and not confirmed; anything else means: rolled back.
 */
export async function transact<Result>(
  pool: pg.Pool,
  options: TransactionOptions,
  body: (client: pg.PoolClient) => Promise<{ readonly last: Promise<unknown>; readonly result: () => Result }>,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await transactOnce(pool, options, body);
    } catch (error) {
      if (error instanceof CommitUnconfirmedError) throw error;
      if (!isConflict(error) || attempt >= TRIES_MAX) throw error;
      await pause(Math.random() * Math.min(200, 5 * 2 ** attempt));
    }
  }
}

/** What `pg` takes for one statement. */
type Statement = string | pg.QueryConfig;

/**
 * Runs one statement of ours in a transaction of its own, on a pool or client that pipelines, within the bounds of every transaction of ours. By itself it would wait
 * for a row for as long as somebody holds it, and settings of a session would leak behind a pooler. What conflicted is
 * tried again, but not a lock that was not had: whoever asked waited long enough for that.
 * @throws CommitUnconfirmedError as `transact` does; anything else means: nothing of it stands.
 */
export async function runAlone<Row extends object>(
  on: pg.Pool | pg.Client,
  statement: Statement,
  values?: readonly unknown[],
): Promise<pg.QueryResult<Row>> {
  const alone = async (client: pg.ClientBase) => {
    let answer: pg.QueryResult<Row> | undefined;
    const asked = values === undefined ? client.query<Row>(statement) : client.query<Row>(statement, [...values]);
    const last = asked.then((answered) => {
      answer = answered;
    });
    return { last, result: () => answer as pg.QueryResult<Row> };
  };
  for (let attempt = 1; ; attempt++) {
    try {
      if ("connect" in on && "totalCount" in on) return await transactOnce(on, ALONE, alone);
      return await transactOn(on, ALONE, alone, () => {});
    } catch (error) {
      if (error instanceof CommitUnconfirmedError || !ALONE_AGAIN.has(driverCode(error) ?? "")) throw error;
      if (attempt >= TRIES_MAX) throw error;
      await pause(Math.random() * Math.min(200, 5 * 2 ** attempt));
    }
  }
}

const ALONE: TransactionOptions = { isolation: "read committed", anyPlan: true };
const ALONE_AGAIN = new Set(["40001", "40P01"]);

/** Makes what is asked of the pool itself, statement by statement, run so. Its clients' own transactions stay as they are. */
export function boundStatements(pool: pg.Pool): pg.Pool {
  const alone = (statement: Statement, values?: readonly unknown[]) => runAlone(pool, statement, values);
  pool.query = alone as typeof pool.query;
  return pool;
}

/**
 * Runs an application's own statements in a transaction on its client: none of our bounds, no second try.
 * @throws LedgerError `rolled_back` where COMMIT answered ROLLBACK, because the body swallowed a statement's error; whatever
 *   the body throws, after a rollback.
 */
export async function commitOnClient<Result>(client: pg.ClientBase, body: () => Promise<Result>): Promise<Result> {
  const answered = (text: string) => {
    const statement = { text, query_timeout: ANSWER_MS_MAX };
    return client.query(statement);
  };
  await answered("begin isolation level read committed");
  let result: Result;
  try {
    result = await body();
  } catch (error) {
    await answered("rollback").catch(() => {}); // a connection that is gone has rolled back; the body's error is the one to tell
    throw error;
  }
  const { command } = await answered("commit");
  if (command === "COMMIT") return result;
  throw new LedgerError(
    "rolled_back",
    "a statement failed in the transaction and its error was swallowed: nothing of it stands",
    {
      hint: "let the error through, or try such a statement within a savepoint",
    },
  );
}

/** Runs a body in a transaction that is rolled back whatever happens: for looking through functions that lock. */
export async function lookAndRollBack<Result>(
  client: pg.ClientBase,
  look: (client: pg.ClientBase) => Promise<Result>,
): Promise<Result> {
  await client.query(`begin; ${LOCAL_SETTINGS}`);
  try {
    return await look(client);
  } finally {
    await client.query("rollback");
  }
}

/** True for a serialisation failure, a deadlock or a lock that was not had in time: nothing was written, try again. */
export function isConflict(error: unknown): boolean {
  return CONFLICTS.has(driverCode(error) ?? "");
}

/** True for what may pass by itself: no connection, no room, a server that starts or stops, a COMMIT not confirmed. */
export function isPassing(error: unknown): boolean {
  if (error instanceof CommitUnconfirmedError || isConflict(error)) return true;
  const code = driverCode(error);
  return code === undefined || !/^[0-9A-Z]{5}$/.test(code) || /^(08|53|57)/.test(code);
}

async function transactOnce<Result>(
  pool: pg.Pool,
  options: TransactionOptions,
  body: (client: pg.PoolClient) => Promise<{ readonly last: Promise<unknown>; readonly result: () => Result }>,
): Promise<Result> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    return await transactOn(client, options, body, (error) => {
      broken = error;
    });
  } finally {
    client.release(broken);
  }
}

/** @param onBroken hears that the connection is of no use any more */
async function transactOn<Client extends pg.ClientBase, Result>(
  client: Client,
  options: TransactionOptions,
  body: (client: Client) => Promise<{ readonly last: Promise<unknown>; readonly result: () => Result }>,
  onBroken: (error: Error) => void,
): Promise<Result> {
  const warnings: unknown[] = [];
  const onNotice = (notice: { severity?: string | undefined }) => {
    if (notice.severity === "WARNING") warnings.push(notice);
  };
  client.on("error", onBroken);
  try {
    const begun = client.query(opening(options));
    begun.catch(() => {}); // awaited with the body's statements, which fail after it
    let ending: { readonly last: Promise<unknown>; readonly result: () => Result };
    try {
      ending = await body(client);
    } catch (error) {
      // COMMIT was never sent, so whatever happened, nothing stands.
      await client.query("rollback").catch(onBroken);
      throw await firstFailure(begun, error);
    }
    client.on("notice", onNotice);
    const commit = client.query("commit");
    const [first, last, end] = await Promise.allSettled([begun, ending.last, commit]);
    if (end.status === "fulfilled" && end.value.command === "COMMIT" && warnings.length === 0) return ending.result();
    const cause = [first, last, end].find((step) => step.status === "rejected")?.reason ?? warnings[0];
    if (end.status === "fulfilled" && end.value.command === "ROLLBACK")
      throw cause ?? new Error("COMMIT answered ROLLBACK");
    if (end.status === "rejected" && isServerError(end.reason)) throw cause;
    onBroken(cause instanceof Error ? cause : new Error("COMMIT was not confirmed"));
    throw new CommitUnconfirmedError(cause);
  } finally {
    client.off("notice", onNotice);
    client.off("error", onBroken);
  }
}

/** Everything before the snapshot: BEGIN, local settings and gates, in one packet of the simple protocol. */
function opening(options: TransactionOptions): string {
  const gates = [...new Set((options.roots ?? []).map(gateOf))].sort((a, b) => a - b);
  return [
    `begin isolation level ${options.isolation}`,
    LOCAL_SETTINGS,
    ...(options.anyPlan ? [] : [INDEX_ONLY]),
    ...(gates.length > 0
      ? [`lock table ${gates.map((gate) => `effects_ledger.gate_${gate}`).join(", ")} in exclusive mode`]
      : []),
  ].join("; ");
}

/** A root task's gate, from 0. What shares a transaction had better share one. The last digit of a version 7 UUID is random, so roots spread evenly. */
export function gateOf(root: string): number {
  return Number.parseInt(root.slice(-1), 16) % GATES;
}

/** An answer of severity ERROR says that the transaction is rolled back. FATAL and everything else say nothing. */
function isServerError(error: unknown): boolean {
  return (error as { severity?: string } | null)?.severity === "ERROR";
}

async function firstFailure(begun: Promise<unknown>, error: unknown): Promise<unknown> {
  const [first] = await Promise.allSettled([begun]);
  return first.status === "rejected" ? first.reason : error;
}

/** Waits. Only between tries: nothing here is ever ordered by it. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
