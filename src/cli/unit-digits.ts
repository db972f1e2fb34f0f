/** `usd_cents=5000` among a command's arguments. The digits go on as they are: the ledger checks them, and loses none. */
import { LedgerError } from "../core/error.ts";

export interface UnitDigits {
  readonly unit: string;
  readonly limit: string;
}

/** @throws LedgerError `usage_invalid` where it is not two words with `=` between them. */
export function parseUnitDigits(text: string): UnitDigits {
  const { unit, digits } = partsOf(text, "limit");
  return { unit, limit: digits };
}

/** A measured cost, unit by unit, from an option that may be given again. @throws LedgerError `usage_invalid` */
export function collectCost(text: string, earlier: Cost = {}): Cost {
  const { unit, digits } = partsOf(text, "cost");
  if (!Object.hasOwn(earlier, unit)) return { ...earlier, [unit]: digits };
  throw new LedgerError("usage_invalid", `the cost names ${unit} twice`, {
    hint: "give the whole amount of a unit once",
  });
}

/** Digits by unit, as the ledger reads a cost. */
export type Cost = Readonly<Record<string, string>>;

function partsOf(text: string, what: string): { readonly unit: string; readonly digits: string } {
  const [, unit, digits] = /^([^=]+)=([^=]+)$/.exec(text.trim()) ?? [];
  if (unit !== undefined && digits !== undefined) return { unit, digits };
  throw new LedgerError("usage_invalid", `the ${what} ${JSON.stringify(text)} is refused`, {
    hint: "give a unit and digits: usd_cents=5000",
  });
}
