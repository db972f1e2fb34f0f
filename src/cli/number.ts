/** Whole numbers among a command's options. */
import { LedgerError } from "../core/error.ts";

/** A parser for an option: a whole number within bounds. It throws LedgerError `number_invalid`. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^-?\d{1,16}$/.test(text.trim()) ? Number(text) : Number.NaN;
    if (Number.isInteger(value) && value >= min && value <= max) return value;
    throw new LedgerError("number_invalid", `the number ${JSON.stringify(text)} is refused`, {
      hint: `give a whole number from ${min} to ${max}`,
    });
  };
}
