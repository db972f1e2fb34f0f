/** Facts under which one effect is admitted, and what makes each denial stand; the admission tests change them. */
import type { AdmissionFacts, BudgetFacts, EffectFacts, OwnersPolicy } from "../../src/core/facts.ts";

export const NOW_MS = 1_800_000_000_000;
export const EXPIRES_AT_MS = NOW_MS + 86_400_000;

/** An effect of the child task, which costs 100. */
export const EFFECT: EffectFacts = {
  effectId: "effect-1",
  state: "prepared",
  lineage: ["root", "child"],
  actor: "shop",
  requestedBy: "shop",
  entitled: true,
  onDenial: "wait",
  notBeforeMs: null,
  expiresAtMs: EXPIRES_AT_MS,
  preparedAtMs: NOW_MS - 1_000,
  revision: 1,
  rebindings: 0,
  digest: "d1",
  implementation: "bound",
  release: "r1",
  running: { implementation: "bound", release: "r1", precondition: "none", preparedWithinMs: null },
  target: "cards/42",
  conditional: false,
  operation: { name: "charge_card", version: 1, withdrawn: false, protected: false, allowedImplementation: null },
  policyId: "ordinary",
  cost: { usd_cents: 100n },
  lane: null,
  follows: null,
  against: null,
  bytesMatch: true,
  invocationEnded: false,
  payloadMatch: true,
};

/** A budget with nothing used, except what is said. */
export function budget(taskId: string, limit: bigint, used: Partial<BudgetFacts> = {}): BudgetFacts {
  return { taskId, unit: "usd_cents", limit, reserved: 0n, spent: 0n, overrun: 0n, suspended: false, ...used };
}

export const FACTS: AdmissionFacts = {
  nowMs: NOW_MS,
  ledgerId: "00000000-0000-4000-8000-000000000001",
  epoch: "00000000-0000-4000-8000-000000000002",
  identity: "ok",
  remembered: true,
  violated: false,
  durabilityGap: null,
  tasks: new Map([
    ["root", { name: "shops", ended: false, revoked: false, deadlineMs: null }],
    ["child", { name: "shops/1", ended: false, revoked: false, deadlineMs: null }],
  ]),
  actors: new Map([["shop", { revoked: false }]]),
  policies: new Map([
    ["ordinary", { kind: "ordinary", policyId: "ordinary", name: "ordinary", revision: 1, revoked: false }],
  ]),
  approvals: new Map(),
  pauses: [],
  budgets: [budget("root", 1_000n)],
  busyLanes: new Set(),
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

/** A policy of the owner's that covers the effect and wants nothing. */
export const OWNERS: OwnersPolicy = {
  kind: "owner",
  policyId: "charges",
  name: "charges",
  revision: 1,
  revoked: false,
  suspended: false,
  operation: "charge_card",
  version: 1,
  taskId: "root",
  taskDepth: 1,
  actor: null,
  target: null,
  costs: { usd_cents: 100n },
  admissionsMax: null,
  admissionsUsed: 0n,
  openMax: null,
  openNow: 0n,
  approvalsNeeded: 0,
  approvers: [],
  requesterExcluded: true,
  preconditionEnforced: false,
  preparedWithinMs: null,
  expiresAtMs: null,
  addedAtMs: NOW_MS - 2_000,
};

/** The facts with the effect's operation protected and allowed, under the owner's policy with other fields. */
export function protectedUnder(facts: AdmissionFacts, changed: Partial<OwnersPolicy>): AdmissionFacts {
  const earlier = facts.policies.get(OWNERS.policyId);
  const policy: OwnersPolicy = { ...(earlier?.kind === "owner" ? earlier : OWNERS), ...changed };
  const [effect = EFFECT] = facts.effects;
  const bound = effect.policyId === "ordinary" ? policy.policyId : effect.policyId;
  return withEffect(
    { ...facts, policies: new Map([...facts.policies, [policy.policyId, policy]]) },
    { policyId: bound, operation: { ...effect.operation, protected: true, allowedImplementation: "bound" } },
  );
}
