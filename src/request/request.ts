/**
 * Requests as the application makes them: parameters to a statement, which the caller's own transaction runs. The
 * statement calls the same SQL function that psql, Go or Python call.
 */
import { canonicalText } from "../core/canonical.ts";
import { LedgerError } from "../core/error.ts";
import type { Requestable } from "../core/operation.ts";
import { cleanText } from "../core/text.ts";
import { CANCEL, ENQUEUE, ENQUEUE_MANY, FOLLOW, OPEN_TASK, REQUEST_RECONCILIATION } from "../store/request.ts";

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
  /** A registered actor that this login speaks for. Default: the role in force. */
  readonly actor?: string;
  /** An inbox that is told where it stands, each time that is recorded: `ledger.onNotices`. A lower-case word. */
  readonly notify?: string;
  /** The invocation that asks: `ledger.startInvocation`. Once that has ended, it is no longer admitted. */
  readonly invocation?: string;
  /** The effect that it tries again: of the same task and actor, declined, failed, without effect, or resolved so. */
  readonly follows?: string;
  /** How often it is tried again by itself, where its adapter says when. Default: the contract's. 0 to 100. */
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
  return {
    text: ENQUEUE,
    values: [
      operation.definition.name,
      inputText(operation, input),
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
      options.actor ?? null,
      options.invocation ?? null,
    ],
  };
}

/** An input's canonical text. @throws LedgerError `input_invalid`, `input_unfaithful`; the schema's defaults are not in it. */
function inputText<Given>(operation: Requestable<Given>, input: Given): string {
  const { name, input: schema } = operation.definition;
  const text = canonicalText(input);
  const parsed = schema.safeParse(input);
  if (parsed.success) return text;
  const issues = parsed.error.issues.map(({ path, message }) => `/${path.map(String).join("/")}: ${message}`);
  throw new LedgerError("input_invalid", `the input of ${name} is refused: ${cleanText(issues.join("; "), 500)}`, {
    hint: "effects.operations shows the operation's input as JSON Schema",
  });
}

/** One of many requests: its input, and what `enqueue` takes as options. */
export type RequestOfMany<Given> = EnqueueOptions & { readonly input: Given };

/** What became of one of many requests: a new effect, or the one that its name had asked for before. */
export interface RequestedOfMany {
  readonly effectId: string;
  readonly replayed: boolean;
}

/**
 * The statement that requests many effects of one operation, all or none; it returns a row for each, in their order.
 * @throws LedgerError as `enqueueStatement` does; `ordinal` says which request it is about, counted from 1.
 */
export function enqueueManyStatement<Given>(
  operation: Requestable<Given>,
  requests: readonly RequestOfMany<Given>[],
): Statement {
  const elements = requests.map((request, place) => {
    const fields = Object.entries(PARAMETER_OF).flatMap(([option, parameter]) => {
      const given = request[option as keyof EnqueueOptions];
      return given === undefined ? [] : [`"${parameter}":${optionText(given)}`];
    });
    // The input's own text goes in unchanged: that it is faithful was checked on it.
    return `{${[...fields, `"input":${inputTextOf(operation, request, place + 1)}`].join(",")}}`;
  });
  return { text: ENQUEUE_MANY, values: [operation.definition.name, `[${elements.join(",")}]`] };
}

/** By what name effects.enqueue_many knows each option. One that is not here does not compile. */
const PARAMETER_OF: Readonly<Record<keyof EnqueueOptions, string>> = {
  task: "task",
  name: "name",
  notify: "notify",
  notBefore: "not_before",
  expiresAt: "expires_at",
  priority: "priority",
  onDenial: "on_denial",
  follows: "follows",
  followMax: "follow_max",
  actor: "actor",
  invocation: "invocation",
  trace: "trace",
};

/** JSON, but what JSON would make null of (NaN, a Date that is none) as its text, which is refused and not left out. */
function optionText(given: string | number | Date): string {
  const json = JSON.stringify(given);
  return json === "null" ? JSON.stringify(String(given)) : json;
}

function inputTextOf<Given>(operation: Requestable<Given>, { input }: { readonly input: Given }, ordinal: number) {
  try {
    return inputText(operation, input);
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error;
    const { code, hint = "", message } = error;
    throw new LedgerError(code, `${message} (request ${ordinal})`, { hint, ordinal, cause: error });
  }
}

/**
 * What a cancellation came to: declined, and nothing was sent; recorded beside an admission, and nobody knows yet; or too
 * late, because it had ended.
 */
export type Cancelled = "declined" | "cancel_requested" | "ended";

/** The statement that cancels an effect. */
export function cancelStatement(effectId: string): Statement {
  return { text: CANCEL, values: [effectId] };
}

/** The statement that tries an effect again. A reason is an operator's, and wanted where a risk was accepted. */
export function followStatement(effectId: string, reason?: string): Statement {
  return { text: FOLLOW, values: [effectId, reason ?? null] };
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
  /** A void mark may be written at the recipient, where the contract has a fence. */
  readonly allowFence?: boolean;
  /** The same key and bytes may go out once more, where the contract proves that harmless. Not beside `allowFence`. */
  readonly allowResubmit?: boolean;
  /** Also ask about what was asked about and stayed uncertain; what that finds is a resolution. */
  readonly includeUncertain?: boolean;
  /** Wanted where a fence or a resubmission would meet more than one effect: how many are meant. */
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
      options.allowResubmit ?? false,
      options.includeUncertain ?? false,
      options.confirmCount ?? null,
    ],
  };
}
