/** Facts under which one effect is admitted, and what makes each denial stand; the admission tests change them. */
import type { AdmissionFacts, BudgetFacts, EffectFacts } from "../../src/core/admission.ts";

export const NOW_MS = 1_800_000_000_000;
export const EXPIRES_AT_MS = NOW_MS + 86_400_000;

/** An effect of the child task, which costs 100. */
export const EFFECT: EffectFacts = {
  effectId: "effect-1",
  state: "prepared",
  lineage: ["root", "child"],
  actor: "shop",
  onDenial: "wait",
  notBeforeMs: null,
  expiresAtMs: EXPIRES_AT_MS,
  revision: 1,
  implementation: "bound",
  implementationNow: "bound",
  target: "cards/42",
  operation: { name: "charge_card", withdrawn: false, protected: false, allowed: false },
  policyId: "ordinary",
  cost: { usd_cents: 100n },
  bytesMatch: true,
  payloadMatch: true,
};

/** A budget with nothing used, except what is said. */
export function budget(taskId: string, limit: bigint, used: Partial<BudgetFacts> = {}): BudgetFacts {
  return { taskId, unit: "usd_cents", limit, reserved: 0n, spent: 0n, overrun: 0n, ...used };
}

export const FACTS: AdmissionFacts = {
  nowMs: NOW_MS,
  identity: "ok",
  durabilityGap: null,
  tasks: new Map([
    ["root", { name: "shops", ended: false, revoked: false, deadlineMs: null }],
    ["child", { name: "shops/1", ended: false, revoked: false, deadlineMs: null }],
  ]),
  actors: new Map([["shop", { revoked: false }]]),
  policies: new Map([["ordinary", { name: "ordinary", revoked: false }]]),
  pauses: [],
  budgets: [budget("root", 1_000n)],
  effects: [EFFECT],
};

/** The facts with other fields of the (only) effect. */
export function withEffect(facts: AdmissionFacts, changed: Partial<EffectFacts>): AdmissionFacts {
  return { ...facts, effects: facts.effects.map((effect) => ({ ...effect, ...changed })) };
}

/** The facts with other fields of one task. */
export function withTask(
  facts: AdmissionFacts,
  taskId: string,
  changed: Partial<{ ended: boolean; revoked: boolean; deadlineMs: number }>,
): AdmissionFacts {
  const task = facts.tasks.get(taskId) ?? { name: taskId, ended: false, revoked: false, deadlineMs: null };
  return { ...facts, tasks: new Map([...facts.tasks, [taskId, { ...task, ...changed }]]) };
}
