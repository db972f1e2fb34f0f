/**
 * The reconciliation decision (protocol, section 7): what an inspection's report means. Absence proves nothing by itself;
 * "could not ask" is not "not there"; only evidence, a fence that holds, or a person settles a doubt.
 */
import type { Amounts } from "./amount.ts";
import type { Contract, FenceClaim } from "./contract.ts";
import {
  type Decision,
  decideAccepted,
  decideFailed,
  decideNoEffect,
  keptText,
  type OutcomeDecision,
  type ProofRules,
  type Settlement,
  type StoredEvidence,
  settleAtMaximum,
  storeEvidence,
} from "./outcome.ts";
import type { Absent, FenceReport, ReconcileReport, ResubmitReport } from "./report.ts";

export type InspectionKind = "lookup" | "fence" | "resubmit";

/** What an inspection knew when its adapter was called. Moments are the database's, in milliseconds since the epoch. */
export interface InspectionFacts {
  readonly kind: InspectionKind;
  readonly reserved: Amounts;
  /** What a lookup that finds nothing goes on to: what the request allows and the operation has. */
  readonly next: "fence" | "resubmit" | null;
  /** True where it is uncertain already: then only something new is recorded. */
  readonly uncertain: boolean;
  readonly begunAtMs: number;
  readonly admittedAtMs: number;
  readonly dispatchDeadlineMs: number;
  /** When the adapter's promise had settled, where that is on record. */
  readonly dispatchEndedAtMs: number | null;
}

export type Finding =
  | OutcomeDecision
  /** Asked, and nobody can tell: final. `reached`: what was wanted is there, by an unknown hand. */
  | {
      readonly decision: "uncertain";
      readonly resolution: "reached" | null;
      readonly evidence: StoredEvidence;
      readonly reason: string;
      readonly settlements: readonly Settlement[];
    }
  /** Nothing is recorded about the effect. `conclusiveAtMs`: from when on the same report would be conclusive. */
  | {
      readonly decision: "nothing";
      readonly evidence: StoredEvidence | null;
      readonly reason: string;
      readonly conclusiveAtMs: number | null;
    }
  /** Not a report: counts as "could not ask". */
  | { readonly decision: "unreadable"; readonly reason: string }
  /** The lookup found nothing, and the same request goes on to what it allows. */
  | { readonly decision: "goes_on"; readonly to: "fence" | "resubmit"; readonly evidence: StoredEvidence };

/** Decides what an inspection's report records. */
export function decideFinding(
  report: ReconcileReport<unknown> | FenceReport<unknown> | ResubmitReport<unknown>,
  rules: ProofRules,
  facts: InspectionFacts,
): Finding {
  const found = findingOf(report, rules, facts);
  // What is uncertain stays so, and is not recorded a second time.
  if (facts.uncertain && found.decision === "uncertain" && found.resolution === null) {
    return nothing(`still uncertain: ${found.reason}`, found.evidence);
  }
  return found;
}

function findingOf(
  report: ReconcileReport<unknown> | FenceReport<unknown> | ResubmitReport<unknown>,
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
      return decideAbsent(report, rules, facts);
    case "reached":
      return {
        ...uncertain("the wanted state is there, by an unknown hand", storeEvidence(report.evidence, rules.secrets)),
        resolution: "reached",
        settlements: settleAtMaximum(facts.reserved),
      };
    case "ambiguous":
      return uncertain(
        "more than one match, or one that differs from the binding",
        storeEvidence(report.evidence, rules.secrets),
      );
    case "unknown": {
      const reason = keptText(report.reason, rules.secrets);
      // A fence or a resubmission that cannot tell changed nothing about what a lookup may still find.
      if (facts.kind !== "lookup") return nothing(reason);
      return uncertain(reason, storeEvidence({ unknown: reason }, rules.secrets));
    }
    default:
      // Not one of the reports that this version knows: nothing may be concluded from it.
      report satisfies never;
      return { decision: "unreadable", reason: "the adapter gave no report that is known" };
  }
}

function decideAbsent(report: Absent, rules: ProofRules, facts: InspectionFacts): Finding {
  const evidence = storeEvidence(report.evidence, rules.secrets);
  if (facts.kind !== "lookup") return uncertain("absent, which is not conclusive", evidence);
  const from = conclusiveFrom(rules.contract, facts);
  // The lookup has to begin after the moment: an answer that took long may be of before.
  if (typeof from === "number" && facts.begunAtMs > from) {
    return decideNoEffect(report, facts.reserved, rules.secrets);
  }
  if (facts.next !== null) return { decision: "goes_on", to: facts.next, evidence };
  if (from === "never_ended") {
    return nothing(
      "absent, and the end of its dispatch is not on record: only a fence or a person concludes",
      evidence,
    );
  }
  if (from !== null) return { ...nothing("absent, which is conclusive only later", evidence), conclusiveAtMs: from };
  return uncertain("absent, which is not conclusive", evidence);
}

/** From when on absence is conclusive; null where the contract has no such claim. */
function conclusiveFrom({ absence }: Contract, facts: InspectionFacts): number | "never_ended" | null {
  if (absence === null) return null;
  if (absence.endedBy === "recipient") return facts.dispatchDeadlineMs + absence.conclusiveAfterMs;
  // A sender that is merely out of time may be frozen, not gone.
  return facts.dispatchEndedAtMs === null ? "never_ended" : facts.dispatchEndedAtMs + absence.conclusiveAfterMs;
}

/** A fence proves something only while its mark, and the effect's own, must still stand at the recipient. */
function decideFenced(evidence: unknown, rules: ProofRules, facts: InspectionFacts): Finding {
  const { fence } = rules.contract;
  if (fence && fenceHolds(fence, facts)) {
    return decideNoEffect({ report: "fenced", evidence }, facts.reserved, rules.secrets);
  }
  return nothing("fenced, but its retention proves nothing by now", storeEvidence(evidence, rules.secrets));
}

function fenceHolds(fence: FenceClaim, facts: InspectionFacts): boolean {
  if (fence.retentionMs === "kept") return true;
  return facts.dispatchEndedAtMs !== null && facts.begunAtMs - facts.admittedAtMs < fence.retentionMs;
}

/** A proof or refusal that cannot be used concludes nothing; the inspection says why. */
function orNothing(decision: Decision): Finding {
  return decision.decision === "outcome" ? decision : nothing(decision.reason);
}

function nothing(reason: string, evidence: StoredEvidence | null = null): Extract<Finding, { decision: "nothing" }> {
  return { decision: "nothing", evidence, reason, conclusiveAtMs: null };
}

function uncertain(reason: string, evidence: StoredEvidence): Extract<Finding, { decision: "uncertain" }> {
  return { decision: "uncertain", resolution: null, evidence, reason, settlements: [] };
}
