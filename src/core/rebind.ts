/**
 * When a binding no longer holds and the effect is prepared again, beside the old one (protocol, section 4). Asked by the
 * job before it admits, and by the admission under its locks, with the same words.
 */
import type { Running } from "./facts.ts";

/** How often an effect is prepared again because what was bound no longer held. */
export const REBINDINGS_MAX = 3;

export interface BoundAs {
  readonly implementation: string;
  readonly release: string;
  readonly preparedAtMs: number;
  readonly operation: { readonly protected: boolean };
  /** The kind of the policy that was bound; `null` where none covered it. */
  readonly policyKind: "ordinary" | "owner" | null;
  /** What its policy wants; `null` where it wants nothing. */
  readonly policyPreparedWithinMs: number | null;
}

/** `stale`: only its age; the others say that something else was bound than what runs now. */
export type BindAgain = "implementation" | "release" | "protection" | "stale";

/** Why an effect is prepared again, or `null` where its binding holds. */
export function whyBindAgain(bound: BoundAs, running: Running, nowMs: number): BindAgain | null {
  if (bound.implementation !== running.implementation) return "implementation";
  // An unprotected effect that waits through a deploy of the same code is what it was.
  if (bound.operation.protected && bound.release !== running.release) return "release";
  if (bound.operation.protected && bound.policyKind === "ordinary") return "protection";
  const within = Math.min(
    running.preparedWithinMs ?? Number.POSITIVE_INFINITY,
    bound.policyPreparedWithinMs ?? Number.POSITIVE_INFINITY,
  );
  return nowMs - bound.preparedAtMs > within ? "stale" : null;
}
