/** The ledger as an application holds it: request, observe, ask, work. Every method is a thin call of a verb. */
import type pg from "pg";
import { LedgerError } from "./core/error.ts";
import type { AnyOperation, Proving, Requestable } from "./core/operation.ts";
import { type InlineHost, openInlineHost } from "./inline/host.ts";
import { Run, type RunOptions } from "./inline/run.ts";
import { type Inbox, type NoticesHandler, type NoticesOptions, openInbox } from "./observe/notices.ts";
import { type Found, isEnding, type ObservedRow, type Standing, standingOf } from "./observe/standing.ts";
import { type CallersClient, runStatement } from "./request/client.ts";
import {
  type Concerned,
  concernedOf,
  endTaskStatement,
  type PauseOptions,
  pauseStatement,
  type ResumeOptions,
  resumeStatement,
} from "./request/control.ts";
import {
  endInvocationStatement,
  type Invocation,
  type InvocationOutcome,
  startInvocationStatement,
} from "./request/invocation.ts";
import {
  type Cancelled,
  cancelStatement,
  type EnqueueOptions,
  enqueueManyStatement,
  enqueueStatement,
  followStatement,
  openTaskStatement,
  type ReconcileOptions,
  type RequestedOfMany,
  type RequestOfMany,
  reconcileStatement,
  type Statement,
  type TaskOptions,
} from "./request/request.ts";
import { openPool, wordConnectionError } from "./store/connection.ts";
import type { ConcernedRow } from "./store/control.ts";
import { findLedger, findNamed, observeEffect } from "./store/ledger.ts";
import { boundStatements, pause } from "./store/transaction.ts";
import { releaseOf } from "./worker/implementation.ts";
import { loadTasks, NO_TASKS, runOperations } from "./worker/operations.ts";
import { startWork, type Working } from "./worker/work.ts";

export interface LedgerOptions {
  readonly connectionString: string;
  /** The ledger that is meant. Another one in that database is refused. Default: whichever is there. */
  readonly ledger?: string;
  /** Connections for requests without a client of the caller's, and for observing. Default 4. */
  readonly poolMax?: number;
}

export interface WorkerOptions {
  /** Operations handed over, or a folder of task files; at least one of both. */
  readonly operations?: readonly AnyOperation[];
  readonly tasks?: string;
  readonly concurrency?: number;
  /** Where declared secrets are looked up. Default: the environment. */
  readonly secrets?: Readonly<Record<string, string | undefined>>;
  readonly log?: (level: "error" | "warning" | "info", message: string) => void;
  /** Logs the stack of a job that failed, and not its message alone. */
  readonly debug?: boolean;
}

export interface FindOptions {
  readonly name: string;
  /** Default: `default`. */
  readonly task?: string;
}

const logToConsole: NonNullable<WorkerOptions["log"]> = (level, message) =>
  console.error(`pg-effects ${level}: ${message}`);

/** Between two looks at an effect whose outcome is waited for, in milliseconds: the first, then up to the last. */
const LOOK_AGAIN_MS = [20, 50, 100, 250, 500] as const;

/**
 * Opens a ledger.
 * @throws LedgerError `connection_string_missing`, `ledger_missing`, `ledger_differs`, `server_too_old`, or a connection's.
 */
export async function openLedger(options: LedgerOptions): Promise<Ledger> {
  if (!options.connectionString) {
    throw new LedgerError("connection_string_missing", "there is no connection string", {
      hint: "give the ledger's own database: a silent fresh ledger, in which every name is free again, would be worse",
    });
  }
  const pool = boundStatements(
    openPool({
      connectionString: options.connectionString,
      applicationName: "pg-effects",
      max: options.poolMax ?? 4,
      pipeline: true,
    }),
  );
  try {
    const found = await findLedger(pool, options.ledger);
    return new Ledger(pool, options.connectionString, found.id, found.name);
  } catch (error) {
    await pool.end();
    throw wordConnectionError(error);
  }
}

/** An open ledger. Made by `openLedger`. */
export class Ledger {
  readonly id: string;
  readonly name: string;
  readonly #pool: pg.Pool;
  readonly #connectionString: string;
  readonly #inline: InlineHost;

  constructor(pool: pg.Pool, connectionString: string, id: string, name: string) {
    this.#pool = pool;
    this.#connectionString = connectionString;
    this.id = id;
    this.name = name;
    const release = () => releaseOf(".", process.env);
    this.#inline = openInlineHost({ pool, connectionString, ledgerId: id, release, log: logToConsole });
  }

  /**
   * A run of this host's, in which it does things in other systems by its own code, each once under its name: ADR 0200. For
   * what is written down first by one process and carried out by another, `enqueue` an operation.
   */
  run(run: string, options: RunOptions = {}): Run {
    return new Run(this.#inline, run, options);
  }

  /** Records that one execution by a host begins, and returns its id, for what it requests and runs. */
  async startInvocation(invocation: Invocation, { client }: { readonly client?: CallersClient } = {}): Promise<string> {
    const { invocation_id } = await this.#one<{ invocation_id: string }>(startInvocationStatement(invocation), client);
    return invocation_id;
  }

  /**
   * Records its result, once, and returns what is recorded: `cancelled`, where that was accepted before.
   * @throws LedgerError PE125 for `succeeded` while an effect of it has no evidence, PE124 where another result is recorded,
   *   PE123 where the caller has no such invocation.
   */
  async endInvocation(
    invocationId: string,
    outcome: InvocationOutcome,
    { client }: { readonly client?: CallersClient } = {},
  ): Promise<InvocationOutcome> {
    const { outcome: recorded } = await this.#one<{ outcome: InvocationOutcome }>(
      endInvocationStatement(invocationId, outcome),
      client,
    );
    return recorded;
  }

  /**
   * Requests an effect, inside the caller's transaction where `client` is given, and returns its id.
   * @throws LedgerError `input_invalid`, `input_unfaithful`, or a code of class PE (docs/errors.md). One that comes from
   *   the database has aborted the caller's transaction; a savepoint keeps the rest.
   */
  async enqueue<Given>(
    operation: Requestable<Given>,
    input: Given,
    options: EnqueueOptions & { readonly client?: CallersClient } = {},
  ): Promise<string> {
    const { effect_id } = await this.#one<{ effect_id: string }>(
      enqueueStatement(operation, input, options),
      options.client,
    );
    return effect_id;
  }

  /**
   * Requests many effects of one operation, all or none, and says for each, in their order, which effect it is. A name that
   * stands twice among them is the same effect, or refused, as one that was asked for before.
   * @throws LedgerError as `enqueue` does; its `ordinal`, counted from 1, says which of the requests it is about.
   */
  async enqueueMany<Given>(
    operation: Requestable<Given>,
    requests: readonly RequestOfMany<Given>[],
    { client }: { readonly client?: CallersClient } = {},
  ): Promise<readonly RequestedOfMany[]> {
    const rows = await this.#all<{ effect_id: string; replayed: boolean }>(
      enqueueManyStatement(operation, requests),
      client,
    );
    return rows.map(({ effect_id, replayed }) => ({ effectId: effect_id, replayed }));
  }

  /** The statement that `enqueue` would run, for any query builder. @throws as `enqueue` does before it runs. */
  statement<Given>(operation: Requestable<Given>, input: Given, options: EnqueueOptions = {}): Statement {
    return enqueueStatement(operation, input, options);
  }

  /** Opens a task, or finds the one of this name, and returns its id. */
  async openTask(name: string, options: TaskOptions & { readonly client?: CallersClient } = {}): Promise<string> {
    const { task_id } = await this.#one<{ task_id: string }>(openTaskStatement(name, options), options.client);
    return task_id;
  }

  /** Ends a task of the caller's own and everything under it: what still waits there is declined. */
  async endTask(name: string, options: { readonly client?: CallersClient } = {}): Promise<void> {
    await this.#one(endTaskStatement(name), options.client);
  }

  /**
   * Stops sending for one scope; requests are still taken, and wait. Says what is out already.
   * @throws LedgerError `scope_invalid`, 22023, PE101 or PE103.
   */
  async pause(options: PauseOptions & { readonly client?: CallersClient }): Promise<Concerned> {
    const { result } = await this.#one<{ result: ConcernedRow }>(pauseStatement(options), options.client);
    return concernedOf(result);
  }

  /** Ends a pause; what waited is looked at again at once. @throws as `pause`; 22023 where nothing is paused so. */
  async resume(options: ResumeOptions & { readonly client?: CallersClient }): Promise<Concerned> {
    const { result } = await this.#one<{ result: ConcernedRow }>(resumeStatement(options), options.client);
    return concernedOf(result);
  }

  /** Asks for a reconciliation and returns its id. A worker runs it, once, until its deadline. */
  async reconcile(options: ReconcileOptions): Promise<string> {
    const { reconciliation_id } = await this.#one<{ reconciliation_id: string }>(reconcileStatement(options));
    return reconciliation_id;
  }

  /** Where an effect of the caller's own stands; null where there is none. */
  async observe<Proof = unknown>(effectId: string): Promise<Standing<Proof> | null> {
    try {
      const row = await observeEffect<ObservedRow>(this.#pool, effectId);
      return row ? standingOf<Proof>(row) : null;
    } catch (error) {
      throw wordConnectionError(error);
    }
  }

  /** The effect of a name, of those that the caller may look at, and where it stands; null where there is none. */
  async find<Proof = unknown>({ task = "default", name }: FindOptions): Promise<Found<Proof> | null> {
    try {
      const row = await findNamed<ObservedRow>(this.#pool, name, task);
      return row ? { effectId: row.effect_id, standing: standingOf<Proof>(row) } : null;
    } catch (error) {
      throw wordConnectionError(error);
    }
  }

  /**
   * Cancels an effect of the caller's own. What is not admitted is declined; of what is, the wish is recorded, its dispatch's
   * signal is aborted within about a second, and nothing is claimed: it may have happened, and its outcome says so.
   * @throws LedgerError PE109 where the caller has no such effect.
   */
  async cancel(effectId: string, { client }: { readonly client?: CallersClient } = {}): Promise<Cancelled> {
    const { result } = await this.#one<{ result: Cancelled }>(cancelStatement(effectId), client);
    return result;
  }

  /**
   * Tries an effect again that was declined, failed or had no effect, or is resolved so: a new effect of the same operation,
   * input, task and actor, whose id it returns. Where it is being tried again already, that one's id.
   * @throws LedgerError PE107 where it may have happened, PE126 where it was followed before, PE108, PE109.
   */
  async follow(
    effectId: string,
    { reason, client }: { readonly reason?: string; readonly client?: CallersClient } = {},
  ): Promise<string> {
    const { effect_id } = await this.#one<{ effect_id: string }>(followStatement(effectId, reason), client);
    return effect_id;
  }

  /**
   * Watches an inbox: each batch of notices is handed over inside a transaction in which they are taken. What the handler
   * writes by its client stands if and only if they are gone; if it throws, they are handed over again, after a while that
   * grows. Consumers of one inbox share its notices. Keep each effect's highest `seq`.
   * @throws LedgerError 22023 for a name that is no inbox's, 42501, or a connection's.
   */
  onNotices(inbox: string, handler: NoticesHandler, options: NoticesOptions = {}): Promise<Inbox> {
    return openInbox(this.#connectionString, inbox, handler, { log: logToConsole, ...options });
  }

  /**
   * Waits until an effect has come to an ending (declined, unresolved or an outcome), at most `timeoutMs`, and returns
   * where it stands then. An ending is a value, whichever it is.
   * @throws LedgerError `effect_unknown` where the caller has no such effect.
   */
  async outcome<Proof>(
    _operation: Proving<Proof>,
    effectId: string,
    options: { readonly timeoutMs: number },
  ): Promise<Standing<Proof>> {
    const ends = performance.now() + options.timeoutMs;
    for (let look = 0; ; look++) {
      const standing = await this.observe<Proof>(effectId);
      if (!standing) {
        throw new LedgerError("effect_unknown", `there is no effect ${effectId} of this actor's`, { effectId });
      }
      const left = ends - performance.now();
      if (isEnding(standing) || left <= 0) return standing;
      await pause(Math.min(left, LOOK_AGAIN_MS[look] ?? 500));
    }
  }

  /** Starts a worker in this process. */
  async work(options: WorkerOptions): Promise<Working> {
    const log = options.log ?? logToConsole;
    const secrets = options.secrets ?? process.env;
    const loaded = options.tasks ? await loadTasks(options.tasks, { log, secrets }) : NO_TASKS;
    for (const words of loaded.passedOver) log("warning", words);
    return startWork({
      connectionString: this.#connectionString,
      ledgerId: this.id,
      tasks: { ...loaded, operations: [...loaded.operations, ...runOperations(options.operations ?? [])] },
      release: await releaseOf(options.tasks ?? ".", process.env),
      ...(options.concurrency === undefined ? {} : { concurrency: options.concurrency }),
      secrets,
      ...(options.debug === undefined ? {} : { debug: options.debug }),
      log,
    });
  }

  /** Closes its connections. Workers are stopped by themselves. */
  async close(): Promise<void> {
    this.#inline.stopping = true;
    await this.#pool.end();
  }

  async #one<Row>(statement: Statement, client?: CallersClient): Promise<Row> {
    const [row] = await this.#all<Row>(statement, client);
    return row as Row;
  }

  async #all<Row>(statement: Statement, client: CallersClient = this.#pool): Promise<readonly Row[]> {
    try {
      return await runStatement<Row>(client, statement);
    } catch (error) {
      throw wordConnectionError(error);
    }
  }
}
