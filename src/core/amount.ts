/**
 * Amounts: what an effect may cost or has cost, per unit. Integers only, as bigint, because sums of money must be exact.
 * Outside this process (JSON, SQL's json, `--json`) an amount is a decimal string.
 */
import { LedgerError } from "./error.ts";

/** Unit name to a non-negative integer, for example `{ usd_cents: 4000n }`. */
export type Amounts = Readonly<Record<string, bigint>>;

/** Unit names are lower-case words, so that they can be column values, keys and options alike. */
export const UNIT_PATTERN = /^[a-z][a-z0-9_]{0,31}$/;

/** The largest amount: what a Postgres `bigint` holds. */
export const AMOUNT_MAX = 9_223_372_036_854_775_807n;

/**
 * Checks amounts given by an application.
 * @throws LedgerError `amount_invalid` for a unit that is no unit name, or an amount that is no bigint from 0 to AMOUNT_MAX.
 */
export function checkAmounts(amounts: unknown): Amounts {
  const prototype = typeof amounts === "object" && amounts !== null ? Object.getPrototypeOf(amounts) : undefined;
  // A Map or an array has no own units and would pass as "no cost".
  if (prototype !== Object.prototype && prototype !== null) throw invalid("amounts are not an object of units");
  for (const [unit, amount] of Object.entries(amounts as object)) {
    if (!UNIT_PATTERN.test(unit)) throw invalid(`unit ${JSON.stringify(unit)} is not a unit name`);
    if (typeof amount !== "bigint") throw invalid(`the amount of ${unit} is a ${typeof amount}, not a bigint`);
    if (amount < 0n || amount > AMOUNT_MAX) throw invalid(`the amount of ${unit} is outside 0 to ${AMOUNT_MAX}`);
  }
  return amounts as Amounts;
}

/** Amounts as they leave the process: decimal strings, units in order. */
export function amountsToJson(amounts: Amounts): Record<string, string> {
  return Object.fromEntries(
    Object.entries(amounts)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([unit, amount]) => [unit, amount.toString()]),
  );
}

/** Reads what `amountsToJson` or the database wrote. */
export function amountsFromJson(amounts: Readonly<Record<string, string>> | null): Amounts {
  return Object.fromEntries(Object.entries(amounts ?? {}).map(([unit, amount]) => [unit, BigInt(amount)]));
}

function invalid(message: string): LedgerError {
  return new LedgerError("amount_invalid", message, {
    hint: `a unit is ${UNIT_PATTERN.source}, an amount a bigint from 0 to ${AMOUNT_MAX}`,
  });
}
