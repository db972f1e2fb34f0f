/**
 * The outcome decision (protocol, section 6): what a dispatch report means under the operation's contract, and how its
 * cost is settled. Pure: the report, the contract and what was reserved go in, what is to be recorded comes out.
 */
import { type Amounts, checkAmounts } from "./amount.ts";
import { canonicalText } from "./canonical.ts";
import type { Contract } from "./contract.ts";
import { evidenceDigest } from "./digest.ts";
import { LedgerError } from "./error.ts";
import type { Absent, Accepted, DispatchReport, Evidence, Failed, Fenced, NotSent } from "./report.ts";
import { NO_SECRETS, type Secrets } from "./secret.ts";
import type { Outcome } from "./state.ts";
import { cleanText, describeThrown } from "./text.ts";

export interface Settlement {
  readonly unit: string;
  readonly settled: bigint;
  readonly overrun: bigint;
  readonly source: "measured" | "maximum" | "none";
}
export interface StoredEvidence {
  readonly bytes: Buffer;
  readonly digest: Buffer;
}
/** An outcome to be recorded, with how its cost is settled. */
export interface OutcomeDecision {
  readonly decision: "outcome";
  readonly outcome: Exclude<Outcome, "uncertain">;
  readonly evidence: StoredEvidence;
  readonly reference: string | null;
  readonly standing: "settled" | "released";
  readonly settlements: readonly Settlement[];
  /** After so long it may be tried again by itself, as a new effect; null where the report does not say so, or may not. */
  readonly againAfterMs: number | null;
}
/** Where nobody can tell yet, the reason. */
export type Decision = OutcomeDecision | { readonly decision: "unresolved"; readonly reason: string };

/** What the decision needs of an operation: its contract, and how it reads its own proofs. */
export interface ProofRules {
  readonly contract: Contract;
  /** Throws where the proof is not one of this operation's. Returns it as it will be stored. */
  readonly parseProof: (proof: unknown) => unknown;
  readonly reference: ((proof: never) => string) | undefined;
  /** What must not be recorded, whoever repeats it. */
  readonly secrets: Secrets;
}

/** Decides what a dispatch's report records. */
export function decideOutcome(report: DispatchReport<unknown>, rules: ProofRules, reserved: Amounts): Decision {
  switch (report.report) {
    case "accepted":
      return decideAccepted(report, rules, reserved);
    case "failed":
      return decideFailed(report, rules, reserved);
    case "notSent":
      return decideNoEffect(report, reserved, rules.secrets);
    case "unknown":
      return { decision: "unresolved", reason: keptText(report.reason, rules.secrets) };
    default:
      // A report of another version, or of no version: nothing may be concluded from it.
      return {
        decision: "unresolved",
        reason: keptText(`the adapter reported ${describeReport(report satisfies never)}`, rules.secrets, 200),
      };
  }
}

/** Acceptance with its proof; a proof that cannot be stored leaves the effect unresolved, never lost or repeated. */
export function decideAccepted(report: Accepted<unknown>, rules: ProofRules, reserved: Amounts): Decision {
  let evidence: StoredEvidence;
  let proof: unknown;
  try {
    proof = rules.parseProof(report.proof);
    if (proof === null || proof === undefined) throw new LedgerError("proof_unusable", "there is none");
    evidence = store(proof, rules.secrets);
    if (evidence.bytes.length > rules.contract.proofBytesMax) {
      throw new LedgerError(
        "proof_unusable",
        `it has ${evidence.bytes.length} bytes, the contract allows ${rules.contract.proofBytesMax}`,
      );
    }
  } catch (error) {
    return {
      decision: "unresolved",
      reason: `proof_unusable: ${describeThrown(error, (text) => rules.secrets.strikeOut(text))}`,
    };
  }
  return {
    decision: "outcome",
    outcome: "accepted",
    evidence,
    reference: referenceOf(proof, rules),
    standing: "settled",
    settlements: settle(reserved, measured(report.cost)),
    againAfterMs: null,
  };
}

/** The recipient's own id in a proof; a missing one costs no acceptance. */
function referenceOf(proof: unknown, rules: ProofRules): string | null {
  try {
    const reference: unknown = rules.reference?.(proof as never);
    return typeof reference === "string" ? keptText(reference, rules.secrets, 200) : null;
  } catch {
    return null; // the contract's function does not know this proof: the proof itself is kept
  }
}

/** A refusal counts only where the contract lists its code; any other may have happened. */
export function decideFailed(report: Failed, rules: ProofRules, reserved: Amounts): Decision {
  const listed = Object.hasOwn(rules.contract.failures, report.code) ? rules.contract.failures[report.code] : undefined;
  if (!listed) {
    return {
      decision: "unresolved",
      reason: `failed as ${keptText(report.code, rules.secrets, 100)}, which the contract does not list`,
    };
  }
  const cost = measured(report.cost);
  const free = listed.effect === "none" && cost === null;
  return {
    decision: "outcome",
    outcome: "failed",
    evidence: storeEvidence(report.evidence, rules.secrets),
    reference: null,
    standing: free ? "released" : "settled",
    settlements: free ? release(reserved) : settle(reserved, cost),
    againAfterMs: listed.effect === "none" ? againAfter(report.againAfterMs) : null,
  };
}

/** Proof that nothing happened: the reservation goes back. */
export function decideNoEffect(
  report: NotSent | Fenced | Absent,
  reserved: Amounts,
  secrets: Secrets,
): OutcomeDecision {
  return {
    decision: "outcome",
    outcome: "no_effect",
    evidence: storeEvidence(report.evidence, secrets),
    reference: null,
    standing: "released",
    settlements: release(reserved),
    againAfterMs: report.report === "notSent" ? againAfter(report.againAfterMs) : null,
  };
}

/** A year: whatever is tried again later than that has expired. */
const AGAIN_AFTER_MS_MAX = 31_536_000_000;

/** A moment that is none asks for nothing: the outcome stands as it is. */
function againAfter(ms: unknown): number | null {
  if (typeof ms !== "number" || Number.isNaN(ms) || ms < 0) return null;
  return Math.min(Math.ceil(ms), AGAIN_AFTER_MS_MAX);
}

/** An adapter's words as they are kept: secrets struck out first, then cleaned and bounded. */
export function keptText(text: unknown, secrets: Secrets, max?: number): string {
  return cleanText(secrets.strikeOut(String(text)), max);
}

/** Evidence as it is kept. What JSON cannot carry is kept as cleaned text: it is diagnosis, not proof. */
export function storeEvidence(evidence: Evidence, secrets: Secrets): StoredEvidence {
  try {
    const stored = store(evidence ?? null, secrets);
    if (stored.bytes.length <= EVIDENCE_BYTES_MAX) return stored;
    const beginning = cleanText(stored.bytes.toString("utf8"), SHORTENED_LENGTH);
    return store({ shortened: beginning, bytes: stored.bytes.length }, NO_SECRETS);
  } catch (error) {
    return store({ unreadable: describeThrown(error, (text) => secrets.strikeOut(text)) }, NO_SECRETS);
  }
}

/** Evidence other than a proof is bounded like a proof is by default, in bytes. */
const EVIDENCE_BYTES_MAX = 4_096;

/** So many characters fit into it whatever they are: one has at most six bytes, escaped. */
const SHORTENED_LENGTH = 600;

/** A value's canonical bytes, without any secret that it repeats. */
function store(value: unknown, secrets: Secrets): StoredEvidence {
  const text = canonicalText(value);
  // Parsed again: plain data only, whatever was given.
  const bytes = Buffer.from(canonicalText(secrets.strikeOutOf(JSON.parse(text))), "utf8");
  return { bytes, digest: evidenceDigest(bytes) };
}

/** The measured cost, or null where there is none to go by: then the maximum is spent. */
function measured(cost: Amounts | undefined): Amounts | null {
  if (cost === undefined) return null;
  try {
    return checkAmounts(cost);
  } catch {
    return null; // an amount that is no amount measures nothing
  }
}

/** Nothing was measured: the maximum is spent. */
export function settleAtMaximum(reserved: Amounts): readonly Settlement[] {
  return settle(reserved, null);
}

function settle(reserved: Amounts, cost: Amounts | null): readonly Settlement[] {
  if (cost === null) {
    return Object.entries(reserved).map(([unit, amount]) => ({
      unit,
      settled: amount,
      overrun: 0n,
      source: "maximum",
    }));
  }
  // A unit that was not measured is spent at its maximum; one that was not reserved is overrun as a whole.
  return [...new Set([...Object.keys(reserved), ...Object.keys(cost)])].map((unit) => {
    const held = Object.hasOwn(reserved, unit) ? (reserved[unit] ?? 0n) : 0n;
    const used = Object.hasOwn(cost, unit) ? cost[unit] : undefined;
    if (used === undefined) return { unit, settled: held, overrun: 0n, source: "maximum" };
    return used > held
      ? { unit, settled: held, overrun: used - held, source: "measured" }
      : { unit, settled: used, overrun: 0n, source: "measured" };
  });
}

function release(reserved: Amounts): readonly Settlement[] {
  return Object.keys(reserved).map((unit) => ({ unit, settled: 0n, overrun: 0n, source: "none" }));
}

function describeReport(report: unknown): string {
  return typeof report === "object" && report
    ? `a report ${String((report as { report?: unknown }).report)}`
    : String(report);
}
