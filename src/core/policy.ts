/**
 * Policies: the owner's rules that let bounded classes of effects be admitted (protocol, sections 4, 5 and 9). Which one
 * covers an effect, and which of several is bound at its preparation. Pure: the moment is a fact.
 */
import type { Amounts } from "./amount.ts";

/** What a policy covers and wants. `null` in a field of coverage is "any". */
export interface Policy {
  readonly policyId: string;
  readonly name: string;
  readonly revision: number;
  readonly operation: string;
  readonly version: number;
  /** Its task and everything under it. */
  readonly taskId: string;
  /** How deep that task lies in its tree; a root is 1. */
  readonly taskDepth: number;
  readonly actor: string | null;
  readonly target: { readonly match: "exact" | "prefix"; readonly text: string } | null;
  /** The most that one effect may cost, per unit. A unit that is not named may cost nothing. */
  readonly costs: Amounts;
  readonly approvalsNeeded: number;
  /** Milliseconds since the epoch, by the database's clock. */
  readonly addedAtMs: number;
}

/** What is known of a request before its target and cost are. */
export interface Asked {
  readonly operation: string;
  readonly version: number;
  readonly actor: string;
  /** From the root to the effect's own task. */
  readonly lineage: readonly string[];
}

/** What a binding adds. */
export interface Bound extends Asked {
  readonly target: string;
  readonly cost: Amounts;
}

/** True where a policy could cover a request, whatever its target and cost turn out to be: then it may be prepared. */
export function couldCover(policy: Policy, asked: Asked): boolean {
  return (
    policy.operation === asked.operation &&
    policy.version === asked.version &&
    (policy.actor === null || policy.actor === asked.actor) &&
    asked.lineage.includes(policy.taskId)
  );
}

/** True where a policy covers exactly this. */
export function covers(policy: Policy, bound: Bound): boolean {
  return couldCover(policy, bound) && coversTarget(policy, bound.target) && coversCost(policy, bound.cost);
}

function coversTarget({ target }: Policy, actual: string): boolean {
  if (target === null) return true;
  return target.match === "exact" ? actual === target.text : actual.startsWith(target.text);
}

function coversCost({ costs }: Policy, cost: Amounts): boolean {
  return Object.entries(cost).every(([unit, amount]) => amount <= (costs[unit] ?? 0n));
}

/**
 * The policy that is bound (protocol, section 4): of those that cover it, one that wants approval goes before one that
 * does not, then the narrower. `null` where none covers it.
 */
export function choosePolicy<Kind extends Policy>(policies: readonly Kind[], bound: Bound): Kind | null {
  return policies.filter((policy) => covers(policy, bound)).sort(compare)[0] ?? null;
}

/** Negative where `a` goes first. No two live policies are alike, so the last comparison decides. */
function compare(a: Policy, b: Policy): number {
  return (
    flag(b.approvalsNeeded > 0) - flag(a.approvalsNeeded > 0) ||
    flag(b.target?.match === "exact") - flag(a.target?.match === "exact") ||
    (b.target?.text.length ?? 0) - (a.target?.text.length ?? 0) ||
    flag(b.actor !== null) - flag(a.actor !== null) ||
    b.taskDepth - a.taskDepth ||
    compareCosts(a.costs, b.costs) ||
    a.addedAtMs - b.addedAtMs ||
    (a.policyId < b.policyId ? -1 : 1)
  );
}

/** Lower in the first unit, in alphabetical order, in which they differ; a unit that is not named is 0. */
function compareCosts(a: Amounts, b: Amounts): number {
  for (const unit of [...new Set([...Object.keys(a), ...Object.keys(b)])].sort()) {
    const [left, right] = [a[unit] ?? 0n, b[unit] ?? 0n];
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

function flag(holds: boolean): number {
  return holds ? 1 : 0;
}
