/**
 * The reconciliation decision (protocol, section 7): what an inspection's report means. Absence proves nothing by itself;
 * "could not ask" is not "not there"; only evidence, a fence that holds, or a person settles a doubt.
 */
import type { Amounts } from "./amount.ts";
import type { FenceClaim } from "./contract.ts";
import {
  type Decision,
  decideAccepted,
  decideFailed,
  decideNoEffect,
  keptText,
  type OutcomeDecision,
  type ProofRules,
  type StoredEvidence,
  storeEvidence,
} from "./outcome.ts";
import type { FenceReport, ReconcileReport } from "./report.ts";

/** What an inspection knew when its adapter was called. */
export interface InspectionFacts {
  readonly kind: "lookup" | "fence";
  readonly reserved: Amounts;
  /** True where the request allows a fence and the operation has one. */
  readonly fenceAllowed: boolean;
  readonly dispatchEnded: boolean;
  /** Milliseconds from the admission to the beginning of this inspection, by the database's clock. */
  readonly sinceAdmissionMs: number;
}
export type Finding =
  | OutcomeDecision
  /** Asked, and nobody can tell: final. */
  | { readonly decision: "uncertain"; readonly evidence: StoredEvidence; readonly reason: string }
  /** Nothing is recorded about the effect. */
  | { readonly decision: "nothing"; readonly evidence: StoredEvidence | null; readonly reason: string }
  /** Not a report: counts as "could not ask". */
  | { readonly decision: "unreadable"; readonly reason: string }
  /** The lookup found nothing and a fence is allowed: the same request goes on to it. */
  | { readonly decision: "fence"; readonly evidence: StoredEvidence };

/** Decides what an inspection's report records. */
export function decideFinding(
  report: ReconcileReport<unknown> | FenceReport<unknown>,
  rules: ProofRules,
  facts: InspectionFacts,
): Finding {
  switch (report.report) {
    case "accepted":
      return orNothing(decideAccepted(report, rules, facts.reserved));
    case "failed":
      return orNothing(decideFailed(report, rules, facts.reserved));
    case "fenced":
      return decideFenced(report.evidence, rules, facts);
    case "absent":
      if (facts.kind === "lookup" && facts.fenceAllowed)
        return { decision: "fence", evidence: storeEvidence(report.evidence, rules.secrets) };
      return {
        decision: "uncertain",
        evidence: storeEvidence(report.evidence, rules.secrets),
        reason: "absent, which is not conclusive",
      };
    case "unknown":
      if (facts.kind === "fence")
        return { decision: "nothing", evidence: null, reason: keptText(report.reason, rules.secrets) };
      return {
        decision: "uncertain",
        evidence: storeEvidence({ unknown: keptText(report.reason, rules.secrets) }, rules.secrets),
        reason: keptText(report.reason, rules.secrets),
      };
    default:
      // Not one of the reports that this version knows: nothing may be concluded from it.
      report satisfies never;
      return { decision: "unreadable", reason: "the adapter gave no report that is known" };
  }
}

/** A fence proves something only while its mark, and the effect's own, must still stand at the recipient. */
function decideFenced(evidence: unknown, rules: ProofRules, facts: InspectionFacts): Finding {
  const { fence } = rules.contract;
  if (fence && fenceHolds(fence, facts)) {
    return decideNoEffect({ report: "fenced", evidence }, facts.reserved, rules.secrets);
  }
  return {
    decision: "nothing",
    evidence: storeEvidence(evidence, rules.secrets),
    reason: "fenced, but its retention proves nothing by now",
  };
}

function fenceHolds(fence: FenceClaim, facts: InspectionFacts): boolean {
  if (fence.retentionMs === "kept") return true;
  return facts.dispatchEnded && facts.sinceAdmissionMs < fence.retentionMs;
}

/** A proof or refusal that cannot be used concludes nothing; the inspection says why. */
function orNothing(decision: Decision): Finding {
  return decision.decision === "outcome" ? decision : { decision: "nothing", evidence: null, reason: decision.reason };
}
