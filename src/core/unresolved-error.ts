/** The error that says: whether it happened is exactly what is not known. */
import { type ErrorDetails, LedgerError } from "./error.ts";

export interface UnresolvedDetails extends ErrorDetails {
  /** `still_running` where it is too early to ask. Default: `effect_unresolved`. */
  readonly code?: "still_running";
}

/**
 * An inline effect's intent stands, and nobody knows whether it happened. The next call asks the recipient; it never runs
 * again. `cause` is what was thrown.
 */
export class EffectUnresolvedError extends LedgerError {
  constructor(message: string, { code, ...details }: UnresolvedDetails = {}) {
    super(code ?? "effect_unresolved", message, details);
    this.name = "EffectUnresolvedError";
  }
}
