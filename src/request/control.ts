/**
 * What an application asks beside effects: that a task ends, that sending stops for a while, that it goes on. Parameters to
 * a statement, as in request.ts; the SQL functions decide and record.
 */
import { LedgerError } from "../core/error.ts";
import type { ConcernedRow } from "../store/control.ts";
import { END_TASK, PAUSE, RESUME } from "../store/request.ts";
import type { Statement } from "./request.ts";

/** What is paused or goes on: exactly one of these. */
export interface PauseScope {
  readonly operation?: string;
  /** The task and everything under it. */
  readonly task?: string;
  /** The beginning of targets. */
  readonly targetPrefix?: string;
  readonly all?: true;
}

export interface PauseOptions extends PauseScope {
  /** 1 to 500 characters. */
  readonly reason: string;
  /** It ends by itself then. Default: when it is resumed. */
  readonly until?: Date;
}

export interface ResumeOptions extends PauseScope {
  readonly reason: string;
}

/** What a change meets: what waits, and what is out already. */
export interface Concerned {
  readonly waiting: number;
  /** Ids of effects that nothing calls back. */
  readonly inFlight: readonly string[];
  readonly unresolved: number;
  /** When the first of what waits expires. */
  readonly firstExpiresAt: Date | null;
}

/** The statement that ends a task of the caller's own. */
export function endTaskStatement(name: string): Statement {
  return { text: END_TASK, values: [name] };
}

/** The statement that pauses. @throws LedgerError `scope_invalid` unless exactly one scope is named. */
export function pauseStatement(options: PauseOptions): Statement {
  return { text: PAUSE, values: [...scopeOf(options), options.reason, options.until ?? null] };
}

/** The statement that ends a pause. @throws LedgerError `scope_invalid` unless exactly one scope is named. */
export function resumeStatement(options: ResumeOptions): Statement {
  return { text: RESUME, values: [...scopeOf(options), options.reason] };
}

/** Reads what a change returns. */
export function concernedOf(row: ConcernedRow): Concerned {
  const { waiting, in_flight, unresolved, first_expires_at } = row;
  const firstExpiresAt = first_expires_at === null ? null : new Date(first_expires_at);
  return { waiting, inFlight: in_flight, unresolved, firstExpiresAt };
}

/** A scope in the function's words, and what it names. */
export function scopeOf({ operation, task, targetPrefix, all }: PauseScope): readonly [scope: string, target: string] {
  const named = Object.entries({ operation, task, target: targetPrefix, all: all && "" }).filter(
    (scope): scope is [string, string] => scope[1] !== undefined,
  );
  const [scope, another] = named;
  if (scope && !another) return scope;
  throw new LedgerError("scope_invalid", `${named.length} scopes are named`, {
    hint: "name exactly one: an operation, a task, a beginning of targets, or all",
  });
}
