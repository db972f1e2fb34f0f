/**
 * One error class for everything this project refuses or cannot do. Callers match on `code`, never on the message.
 */

/** What travels with an error besides its code and message. */
export interface ErrorDetails {
  /** What to do next, one sentence. */
  readonly hint?: string;
  /** The effect concerned, where there is one. */
  readonly effectId?: string;
  /** Of many requests, the one concerned, counted from 1. */
  readonly ordinal?: number;
  readonly cause?: unknown;
}

/** An error with a stable code, what happened, to which effect, and what to do next. */
export class LedgerError extends Error {
  readonly code: string;
  readonly hint: string | undefined;
  readonly effectId: string | undefined;
  readonly ordinal: number | undefined;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "LedgerError";
    this.code = code;
    this.hint = details.hint;
    this.effectId = details.effectId;
    this.ordinal = details.ordinal;
  }
}

/** Something that the design names and this version does not have yet. It is refused, never ignored. */
export function notBuilt(what: string): LedgerError {
  return new LedgerError("0A000", `${what} is not built yet`, { hint: "leave it out; nothing of it is in force" });
}
