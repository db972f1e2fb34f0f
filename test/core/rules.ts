/** Proof rules of an operation for the outcome and reconciliation tests, and what is asked of a decision. */
import assert from "node:assert/strict";
import {
  type Contract,
  type ContractDeclaration,
  completeContract,
  RECORD_BYTES_MAX,
} from "../../src/core/contract.ts";
import type { OutcomeDecision, ProofRules, Settlement } from "../../src/core/outcome.ts";
import { NO_SECRETS } from "../../src/core/secret.ts";

export const CONTRACT: ContractDeclaration = {
  failures: { declined: { effect: "none" }, half_done: { effect: "possible" } },
  proofBytesMax: RECORD_BYTES_MAX,
};

/** Rules that take any proof as it is, of an operation without secrets. */
export function rulesOf(declared: ContractDeclaration = CONTRACT, changed: Partial<ProofRules> = {}): ProofRules {
  const contract: Contract = completeContract(declared as ContractDeclaration<never, never>);
  return { contract, parseProof: (proof) => proof, reference: undefined, secrets: NO_SECRETS, ...changed };
}

/** The outcome that was decided; fails where none was. */
export function outcomeOf(decision: { readonly decision: string }): OutcomeDecision {
  assert.equal(decision.decision, "outcome", "reason" in decision ? String(decision.reason) : decision.decision);
  return decision as OutcomeDecision;
}

/** Settlements by unit, as `settled + overrun (source)`. */
export function settledBy(settlements: readonly Settlement[]): Record<string, string> {
  return Object.fromEntries(
    settlements.map(({ unit, settled, overrun, source }) => [unit, `${settled} + ${overrun} (${source})`]),
  );
}
