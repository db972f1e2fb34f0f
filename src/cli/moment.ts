/** Moments as people write and read them, in the time zone of this process (`TZ`). */
import { LedgerError } from "../core/error.ts";
import { formatDuration, parseAge } from "./duration.ts";

const TIME_OF_DAY = /^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$/;
const ISO = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)?$/;

/**
 * Reads a moment: ISO 8601, a time of day, or a duration from now.
 * @param towards where a time of day and a duration lie: `2h` is two hours ago, or two hours ahead.
 * @throws LedgerError `moment_invalid`
 */
export function parseMoment(text: string, towards: "past" | "future", now: Date = new Date()): Date {
  const given = text.trim();
  if (TIME_OF_DAY.test(given)) return timeOfDay(given, towards, now);
  if (ISO.test(given)) {
    // A date alone is midnight here, not in Greenwich as Date would have it.
    const moment = new Date(given.length === 10 ? `${given}T00:00` : given.replace(" ", "T"));
    if (!Number.isNaN(moment.getTime())) return moment;
  }
  const ms = ageOrNull(given);
  if (ms !== null) return new Date(now.getTime() + (towards === "past" ? -ms : ms));
  throw new LedgerError("moment_invalid", `the moment ${JSON.stringify(text)} is refused`, {
    hint: `give 2026-11-30T02:00Z, 02:00, or a duration ${towards === "past" ? "ago" : "ahead"} such as 2h`,
  });
}

function timeOfDay(text: string, towards: "past" | "future", now: Date): Date {
  const [hours = 0, minutes = 0, seconds = 0] = text.split(":").map(Number);
  const moment = new Date(now);
  moment.setHours(hours, minutes, seconds, 0);
  if (towards === "past" && moment > now) moment.setDate(moment.getDate() - 1);
  if (towards === "future" && moment < now) moment.setDate(moment.getDate() + 1);
  return moment;
}

function ageOrNull(text: string): number | null {
  try {
    return parseAge(text);
  } catch (error) {
    if (error instanceof LedgerError) return null;
    throw error;
  }
}

const digits = (value: number, length: number) => String(value).padStart(length, "0");

/** `02:14:07` for today, else with its date. */
export function formatMoment(moment: Date, now: Date): string {
  const time = [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map((part) => digits(part, 2)).join(":");
  const date = `${moment.getFullYear()}-${digits(moment.getMonth() + 1, 2)}-${digits(moment.getDate(), 2)}`;
  return moment.toDateString() === now.toDateString() ? time : `${date} ${time}`;
}

/** With milliseconds: for a timeline, where neighbours are close. */
export function formatInstant(moment: Date, now: Date): string {
  return `${formatMoment(moment, now)}.${digits(moment.getMilliseconds(), 3)}`;
}

/** `41 min`, from then to now. A clock that runs behind makes no negative age. */
export function formatAge(then: Date, now: Date): string {
  return formatDuration(Math.max(0, now.getTime() - then.getTime()));
}

/** The time zone that moments are shown in. */
export function zoneName(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}
