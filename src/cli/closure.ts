/**
 * Whether the ledger is closed: admission then denies everything, while requesting and reading go on. The order is that of
 * the denials (src/core/denial.ts), whose codes these are.
 */
import type { LedgerFacts } from "../store/audit-ledger.ts";

export interface Closure {
  readonly code: "recovery_unacknowledged" | "ledger_standby" | "durability_missing";
  readonly message: string;
  readonly hint: string;
}

/** Why nothing is admitted, or null. */
export function closureOf({
  standing,
  durability_gap,
}: Pick<LedgerFacts, "standing" | "durability_gap">): Closure | null {
  if (standing === "unacknowledged") {
    return {
      code: "recovery_unacknowledged",
      message:
        "this database may not be the ledger that it was: a copy, a restore, a promoted standby, or closed on purpose",
      hint: "pg-effects recovery show says why, and what acknowledging would meet",
    };
  }
  if (standing === "standby") {
    return {
      code: "ledger_standby",
      message: "this server is a standby",
      hint: "connect to the primary: nothing is admitted on a standby",
    };
  }
  if (durability_gap !== null) {
    return {
      code: "durability_missing",
      message: `a confirmed commit may be lost: ${durability_gap}`,
      hint: "switch fsync and full_page_writes on, and reload the server",
    };
  }
  return null;
}
