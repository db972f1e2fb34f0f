/** `usd_cents=5000` among a command's arguments. The digits go on as they are: the ledger checks them, and loses none. */
import { LedgerError } from "../core/error.ts";

export interface UnitDigits {
  readonly unit: string;
  readonly limit: string;
}

/** @throws LedgerError `usage_invalid` where it is not two words with `=` between them. */
export function parseUnitDigits(text: string): UnitDigits {
  const [, unit, limit] = /^([^=]+)=([^=]+)$/.exec(text.trim()) ?? [];
  if (unit !== undefined && limit !== undefined) return { unit, limit };
  throw new LedgerError("usage_invalid", `the limit ${JSON.stringify(text)} is refused`, {
    hint: "give a unit and digits: usd_cents=5000",
  });
}
