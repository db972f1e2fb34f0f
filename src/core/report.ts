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
}
export interface NotSent {
  readonly report: "notSent";
  readonly evidence: Evidence;
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

export type DispatchReport<Proof> = Accepted<Proof> | Failed | NotSent | Unknown;
export type ReconcileReport<Proof> = Accepted<Proof> | Failed | Fenced | Absent | Unknown;
export type FenceReport<Proof> = Fenced | Accepted<Proof> | Unknown;

/** The recipient acknowledged: what the contract's `accepts` says happened. */
export function accepted<Proof>(proof: Proof, options: { cost?: Amounts } = {}): Accepted<Proof> {
  return { report: "accepted", proof, ...options };
}

/** The recipient's own, authoritative refusal. `evidence.code` names one of the contract's `failures`. */
export function failed(evidence: { readonly code: string }, options: { cost?: Amounts } = {}): Failed {
  return { report: "failed", code: evidence.code, evidence, ...options };
}

/** Only where nothing can have left this process: a refused connection, a check made before the first byte. */
export function notSent(evidence: Evidence): NotSent {
  return { report: "notSent", evidence };
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
