/**
 * What a batch has left while it is decided, effect by effect: budgets, a policy's admissions and bound on open effects,
 * lanes. What one effect takes, the next one finds taken.
 */
import { type AdmissionFacts, type BudgetFacts, type EffectFacts, laneKey, type OwnersPolicy } from "./facts.ts";

export interface Charge {
  readonly taskId: string;
  readonly unit: string;
  readonly amount: bigint;
}

/** The room that a batch's facts leave. */
export class Room {
  readonly #budgets: Map<string, BudgetFacts>;
  readonly #lanes: Set<string>;
  readonly #admitted = new Map<string, bigint>();

  constructor(facts: AdmissionFacts) {
    this.#budgets = new Map(facts.budgets.map((budget) => [budgetKey(budget.taskId, budget.unit), budget]));
    this.#lanes = new Set(facts.busyLanes);
  }

  budget(taskId: string, unit: string): BudgetFacts | undefined {
    return this.#budgets.get(budgetKey(taskId, unit));
  }

  /** Admissions that a policy has left; `null` where it has no bound. */
  admissionsLeft(policy: OwnersPolicy): bigint | null {
    return policy.admissionsMax === null
      ? null
      : policy.admissionsMax - policy.admissionsUsed - this.#admittedUnder(policy);
  }

  openNow(policy: OwnersPolicy): bigint {
    return policy.openNow + this.#admittedUnder(policy);
  }

  laneIsBusy(effect: EffectFacts): boolean {
    return effect.lane !== null && this.#lanes.has(laneKey(effect.operation.name, effect.lane));
  }

  /** One charge on every ancestor that budgets a unit of the cost. */
  chargesOf(effect: EffectFacts): readonly Charge[] {
    return Object.entries(effect.cost).flatMap(([unit, amount]) =>
      effect.lineage.filter((taskId) => this.budget(taskId, unit)).map((taskId) => ({ taskId, unit, amount })),
    );
  }

  /** Takes what an admitted effect takes. Returns its charges. */
  take(effect: EffectFacts): readonly Charge[] {
    const charges = this.chargesOf(effect);
    for (const { taskId, unit, amount } of charges) {
      const budget = this.budget(taskId, unit);
      if (budget) this.#budgets.set(budgetKey(taskId, unit), { ...budget, reserved: budget.reserved + amount });
    }
    if (effect.policyId !== null) {
      this.#admitted.set(effect.policyId, (this.#admitted.get(effect.policyId) ?? 0n) + 1n);
    }
    if (effect.lane !== null) this.#lanes.add(laneKey(effect.operation.name, effect.lane));
    return charges;
  }

  #admittedUnder(policy: OwnersPolicy): bigint {
    return this.#admitted.get(policy.policyId) ?? 0n;
  }
}

function budgetKey(taskId: string, unit: string): string {
  return `${taskId} ${unit}`;
}
