/** Durations as people write and read them: `90s`, `15m`, `41 min`. Milliseconds in between. */
import { LedgerError } from "../core/error.ts";

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** No deadline and no wait is longer (protocol, section 7). */
export const DURATION_MS_MAX = 86_400_000;

/**
 * Reads a duration: a number and a unit.
 * @throws LedgerError `duration_invalid`, also for less than `min` and for more than `max` milliseconds.
 */
export function parseDuration(text: string, max: number = DURATION_MS_MAX, min = 1): number {
  const [, amount, unit = ""] = /^(\d{1,12}(?:\.\d{1,3})?)\s?(ms|s|min|m|h|d)$/.exec(text.trim()) ?? [];
  const ms = Math.round(Number(amount) * (UNITS_MS[unit] ?? Number.NaN));
  if (!Number.isFinite(ms) || ms < min || ms > max) {
    throw new LedgerError("duration_invalid", `the duration ${JSON.stringify(text)} is refused`, {
      hint: `give a number and a unit, from ${short(min)} to ${short(max)}: 90s, 15m, 2h`,
    });
  }
  return ms;
}

const short = (ms: number) => formatDuration(ms).replace(" ", "");

/** For options that look back: at most ten years, in which every ledger fits. */
export function parseAge(text: string): number {
  return parseDuration(text, 3_650 * DURATION_MS_MAX);
}

/** In the largest unit that it fills, rounded down: 41 min, 3 h. Days only from two on. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.floor(ms))} ms`;
  if (ms < 60_000) return `${Math.floor(ms / 1_000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (ms < 2 * 86_400_000) return `${Math.floor(ms / 3_600_000)} h`;
  return `${Math.floor(ms / 86_400_000)} d`;
}
