/**
 * What an adapter reports: values, not exceptions (protocol, sections 6 and 7). A report claims only what its adapter
 * knows; what is recorded is decided from the report and the operation's contract, in outcome.ts and reconciliation.ts.
 */
import type { Amounts } from "./amount.ts";

/** Evidence is any JSON value: what the recipient said, small, without secrets. */
export type Evidence = unknown;

export interface Accepted<Proof> {
  readonly report: "accepted";
  /** An identity that the recipient assigned. It is kept as the proof. */
  readonly proof: Proof;
  /** The measured cost; without it the reserved maximum is spent. */
  readonly cost?: Amounts;
}
export interface Failed {
  readonly report: "failed";
  /** One of the contract's `failures`; a code that is not listed there is recorded as unknown. */
  readonly code: string;
  readonly evidence: Evidence;
  readonly cost?: Amounts;
  /** Try again then, counted from now: heard only where the contract lists the refusal as without effect. */
  readonly againAfterMs?: number;
}
export interface NotSent {
  readonly report: "notSent";
  readonly evidence: Evidence;
  /** Try again then, counted from now. */
  readonly againAfterMs?: number;
}
export interface Unknown {
  readonly report: "unknown";
  readonly reason: string;
}
export interface Absent {
  readonly report: "absent";
  readonly evidence: Evidence;
}
export interface Fenced {
  readonly report: "fenced";
  readonly evidence: Evidence;
}

/** The wanted state is there at the recipient, by an unknown hand. */
export interface Reached {
  readonly report: "reached";
  readonly evidence: Evidence;
}
/** Two matches, or one that differs from the binding: for a person to look at. */
export interface Ambiguous {
  readonly report: "ambiguous";
  readonly evidence: Evidence;
}

/** Whatever was ours at the recipient is gone. It says nothing about the effect. */
export interface Cleaned {
  readonly report: "cleaned";
  readonly evidence: Evidence;
}

export type DispatchReport<Proof> = Accepted<Proof> | Failed | NotSent | Unknown;
export type ReconcileReport<Proof> = Accepted<Proof> | Failed | Fenced | Absent | Reached | Ambiguous | Unknown;
/** A resubmission reports like a dispatch; `notSent` says nothing about the first one. */
export type ResubmitReport<Proof> = Accepted<Proof> | Failed | Unknown;
export type FenceReport<Proof> = Fenced | Accepted<Proof> | Unknown;

/** The recipient acknowledged: what the contract's `accepts` says happened. */
export function accepted<Proof>(proof: Proof, options: { cost?: Amounts } = {}): Accepted<Proof> {
  return { report: "accepted", proof, ...options };
}

/** The recipient's own, authoritative refusal. `evidence.code` names one of the contract's `failures`. */
export function failed(
  evidence: { readonly code: string },
  options: { cost?: Amounts; againAfterMs?: number } = {},
): Failed {
  return { report: "failed", code: evidence.code, evidence, ...options };
}

/** Only where nothing can have left this process: a refused connection, a check made before the first byte. */
export function notSent(evidence: Evidence, options: { againAfterMs?: number } = {}): NotSent {
  return { report: "notSent", evidence, ...options };
}

/** In `dispatch`: nobody can tell from here. In `reconcile`: asked, and the recipient cannot tell; final. */
export function unknown(reason: string): Unknown {
  return { report: "unknown", reason };
}

/** A lookup found nothing. It proves nothing by itself (protocol, section 7). */
export function absent(evidence: Evidence): Absent {
  return { report: "absent", evidence };
}

/** A void mark stands at the recipient under the effect's key: a late dispatch is refused there. */
export function fenced(evidence: Evidence): Fenced {
  return { report: "fenced", evidence };
}

/** What was wanted is there, and nothing says that this effect did it: a deletion whose object is gone, say. */
export function reached(evidence: Evidence): Reached {
  return { report: "reached", evidence };
}

/** The lookup found more than one match, or one that is not what was bound. Not acceptance: a person decides. */
export function ambiguous(evidence: Evidence): Ambiguous {
  return { report: "ambiguous", evidence };
}

/** In `cleanup`: what the effect left of ours at the recipient is gone, or was gone. */
export function cleaned(evidence: Evidence): Cleaned {
  return { report: "cleaned", evidence };
}
