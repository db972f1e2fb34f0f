/** What the parts of a plan are written with: changes, problems, and how what is wanted is compared with what stands. */
import { canonicalText } from "./canonical.ts";
import type { AuthorityChange, PlannedChange } from "./wanted-authority.ts";

/** Takes what one part of a file wants. */
export interface Draft {
  change(at: string, planned: Omit<PlannedChange, "at">): void;
  problem(at: string, says: string): void;
}

export function adding(object: string, after: string | null, change: AuthorityChange): Omit<PlannedChange, "at"> {
  return { kind: "added", object, before: null, after, change };
}

export function revoking(object: string, change: AuthorityChange): Omit<PlannedChange, "at"> {
  return { kind: "revoked", object, before: null, after: null, change };
}

/** Equal as they are stored: moments to the millisecond, names in any order where they are a set. */
export function same(a: unknown, b: unknown): boolean {
  if (a instanceof Date && b instanceof Date) return a.getTime() === b.getTime();
  if (Array.isArray(a) && Array.isArray(b)) return canonicalText(a.toSorted()) === canonicalText(b.toSorted());
  if (
    typeof a === "object" &&
    a !== null &&
    typeof b === "object" &&
    b !== null &&
    !(a instanceof Date || b instanceof Date)
  ) {
    return canonicalText(a) === canonicalText(b);
  }
  return a === b;
}

export function words(value: string | Date | null): string {
  if (value === null) return "not set";
  return value instanceof Date ? value.toISOString() : value;
}
