/** A change of authority in words: from what to what. A detail that has no words is shown as it is. */
import type { AuditAuthority } from "../store/audit-schema.ts";
import { formatMoment } from "./moment.ts";

type Changed = Pick<AuditAuthority, "change" | "object" | "before" | "after">;

/** `set budget usd_cents of task customers/42`, `paused operation charge_card`. */
export function changeWords({ change, object }: Changed): string {
  // "task revoked" of "task agents/7" says its kind twice.
  const [kind = "", ...verb] = change.split(" ");
  return verb.length > 0 && object.startsWith(`${kind} `) ? `${verb.join(" ")} ${object}` : `${change} ${object}`;
}

/** What stood before and stands after; empty where that is said by the change itself. */
export function fromToWords({ before, after }: Changed, now: Date): string {
  const fields = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return fields
    .map((field) => {
      const [then, since] = [valueWords(before?.[field], now), valueWords(after?.[field], now)];
      const name = field.replaceAll("_", " ");
      if (then === since) return "";
      if (then === null) return `${name} ${since}`;
      return since === null ? `${name} was ${then}` : `${name} from ${then} to ${since}`;
    })
    .filter((words) => words !== "")
    .join(", ");
}

/** Null for what is not there: a pause without an end, a limit that there was none of. */
function valueWords(value: unknown, now: Date): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value !== "string") return JSON.stringify(value);
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(value) ? formatMoment(new Date(value), now) : value;
}
