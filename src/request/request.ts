/**
 * Requests as the application makes them: parameters to a statement, which the caller's own transaction runs. The
 * statement calls the same SQL function that psql, Go or Python call.
 */
import { canonicalText } from "../core/canonical.ts";
import { LedgerError } from "../core/error.ts";
import type { Requestable } from "../core/operation.ts";
import { cleanText } from "../core/text.ts";
import { ENQUEUE, OPEN_TASK, REQUEST_RECONCILIATION } from "../store/request.ts";

export interface EnqueueOptions {
  /** The task whose authority and budgets it uses. Default: `default`. */
  readonly task?: string;
  /** One business fact, unique in its task: the same name with the same request is the same effect. */
  readonly name?: string;
  readonly notBefore?: Date;
  readonly expiresAt?: Date;
  /** Smaller goes first. Default 0. */
  readonly priority?: number;
  readonly onDenial?: "wait" | "decline";
  readonly trace?: string;
  // Named by the design; the database refuses them with 0A000 until they are built:
  readonly notify?: string;
  readonly follows?: string;
  readonly followMax?: number;
}

/** Text and values for any driver or query builder. */
export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * The statement that requests an effect. Inputs are checked here; what is stored is the input as given, before defaults.
 * @throws LedgerError `input_invalid` for what the schema refuses, `input_unfaithful` for what JSON cannot carry.
 */
export function enqueueStatement<Given>(
  operation: Requestable<Given>,
  input: Given,
  options: EnqueueOptions = {},
): Statement {
  const { name, input: schema } = operation.definition;
  const text = canonicalText(input);
  const parsed = schema.safeParse(input);
  if (!parsed.success) {
    const issues = parsed.error.issues.map(({ path, message }) => `/${path.map(String).join("/")}: ${message}`);
    throw new LedgerError("input_invalid", `the input of ${name} is refused: ${cleanText(issues.join("; "), 500)}`, {
      hint: "effects.operations shows the operation's input as JSON Schema",
    });
  }
  return {
    text: ENQUEUE,
    values: [
      name,
      text,
      options.task ?? "default",
      options.name ?? null,
      options.notify ?? null,
      options.notBefore ?? null,
      options.expiresAt ?? null,
      options.priority ?? 0,
      options.onDenial ?? "wait",
      options.follows ?? null,
      options.followMax ?? null,
      options.trace ?? null,
    ],
  };
}

export interface TaskOptions {
  readonly parent?: string;
  readonly subject?: string;
  readonly actor?: string;
  readonly deadline?: Date;
  /** Limit by unit. */
  readonly budgets?: Readonly<Record<string, bigint>>;
}

/** The statement that opens a task. The database checks every amount. */
export function openTaskStatement(name: string, options: TaskOptions = {}): Statement {
  const budgets = Object.entries(options.budgets ?? {}).map(([unit, limit]) => ({ unit, limit: String(limit) }));
  return {
    text: OPEN_TASK,
    values: [
      name,
      options.parent ?? "default",
      options.subject ?? null,
      options.actor ?? null,
      options.deadline ?? null,
      JSON.stringify(budgets),
    ],
  };
}

export interface ReconcileOptions {
  /** Exactly one of these, or `all`. */
  readonly effect?: string;
  readonly task?: string;
  readonly operation?: string;
  readonly all?: true;
  /** From now on, at most 24 hours. */
  readonly deadlineMs: number;
  readonly since?: Date;
  readonly olderThanMs?: number;
  readonly allowFence?: boolean;
  /** Wanted where a fence would meet more than one effect: how many are meant. */
  readonly confirmCount?: number;
}

/**
 * The statement that asks for a reconciliation.
 * @throws LedgerError `scope_invalid` unless exactly one scope is named.
 */
export function reconcileStatement(options: ReconcileOptions): Statement {
  const scopes = (["effect", "task", "operation", "all"] as const).filter((scope) => options[scope] !== undefined);
  const scope = scopes[0];
  if (scopes.length !== 1 || scope === undefined) {
    throw new LedgerError("scope_invalid", `${scopes.length} scopes are named`, {
      hint: "name exactly one: effect, task, operation, or all",
    });
  }
  if (!Number.isFinite(options.deadlineMs) || options.deadlineMs <= 0 || options.deadlineMs > 86_400_000) {
    throw new LedgerError("deadline_invalid", `a deadline in ${options.deadlineMs} ms is refused`, {
      hint: "give 1 to 86400000 milliseconds",
    });
  }
  return {
    text: REQUEST_RECONCILIATION,
    values: [
      options.deadlineMs,
      scope,
      options.effect ?? null,
      options.task ?? null,
      options.operation ?? null,
      options.since ?? null,
      options.olderThanMs ?? null,
      options.allowFence ?? false,
      options.confirmCount ?? null,
    ],
  };
}
