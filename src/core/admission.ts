/**
 * The admission decision (protocol, section 5): a pure function over locked facts. It has no clock, no database and no
 * environment; the moment is one of the facts. A batch is decided in the order given: what one effect reserves, the next
 * one finds reserved, and one that does not fit is denied alone.
 */
import type { Amounts } from "./amount.ts";
import { DENIALS, type DenialCode, RETRY_AFTER_MS, type WaitingFor } from "./denial.ts";
import type { DeclinedReason, State } from "./state.ts";

export interface TaskFacts {
  readonly name: string;
  readonly ended: boolean;
  readonly revoked: boolean;
  readonly deadlineMs: number | null;
}
/** Something that stands paused now: an operation, a task by name, a beginning of targets, or everything. */
export interface Pause {
  readonly scope: "operation" | "task" | "target" | "all";
  readonly target: string;
  readonly reason: string;
}
export interface BudgetFacts {
  readonly taskId: string;
  readonly unit: string;
  readonly limit: bigint;
  readonly reserved: bigint;
  readonly spent: bigint;
  readonly overrun: bigint;
}
export interface EffectFacts {
  readonly effectId: string;
  readonly state: State;
  readonly lineage: readonly string[];
  readonly actor: string;
  readonly onDenial: "wait" | "decline";
  readonly notBeforeMs: number | null;
  readonly expiresAtMs: number;
  readonly revision: number;
  /** The implementation that was bound, and the one that this worker runs. */
  readonly implementation: string;
  readonly implementationNow: string;
  readonly target: string;
  readonly operation: {
    readonly name: string;
    readonly withdrawn: boolean;
    readonly protected: boolean;
    readonly allowed: boolean;
  };
  readonly policyId: string;
  readonly cost: Amounts;
  readonly bytesMatch: boolean;
  readonly payloadMatch: boolean;
}
/** Everything that one admission locks and decides from. */
export interface AdmissionFacts {
  readonly nowMs: number;
  readonly identity: "ok" | "standby" | "unacknowledged";
  readonly durabilityGap: string | null;
  readonly tasks: ReadonlyMap<string, TaskFacts>;
  readonly actors: ReadonlyMap<string, { readonly revoked: boolean }>;
  readonly policies: ReadonlyMap<string, { readonly name: string; readonly revoked: boolean }>;
  readonly pauses: readonly Pause[];
  readonly budgets: readonly BudgetFacts[];
  readonly effects: readonly EffectFacts[];
}

export interface Charge {
  readonly taskId: string;
  readonly unit: string;
  readonly amount: bigint;
}
export type Verdict =
  | {
      readonly verdict: "admitted";
      readonly effectId: string;
      readonly issuedUnder: "ordinary";
      readonly permitExpiresAtMs: number;
      readonly charges: readonly Charge[];
    }
  | {
      readonly verdict: "waits";
      readonly effectId: string;
      readonly code: DenialCode;
      readonly waitingFor: WaitingFor;
      readonly retryAfterMs: number;
      readonly detail: Readonly<Record<string, string>>;
    }
  | {
      readonly verdict: "declined";
      readonly effectId: string;
      readonly code: DenialCode;
      readonly reason: DeclinedReason;
      readonly detail: Readonly<Record<string, string>>;
    }
  /** It has its permit, or was declined: its state is told, nothing is written. */
  | { readonly verdict: "already"; readonly effectId: string; readonly state: State };

/** How often a binding is prepared again before it counts as unstable (protocol, section 4). */
export const REVISIONS_MAX = 4;

interface Denial {
  readonly code: DenialCode;
  readonly detail: Readonly<Record<string, string>>;
}

/** Decides a batch, in the order given. */
export function decideAdmissions(facts: AdmissionFacts): readonly Verdict[] {
  const room = new Map(facts.budgets.map((budget) => [budgetKey(budget.taskId, budget.unit), { ...budget }]));
  return facts.effects.map((effect): Verdict => {
    if (effect.state !== "prepared") return { verdict: "already", effectId: effect.effectId, state: effect.state };
    const denial = firstDenial(facts, effect, room);
    if (denial) return denied(facts, effect, denial);
    const charges = chargesOf(effect, room);
    for (const charge of charges) {
      const budget = room.get(budgetKey(charge.taskId, charge.unit));
      if (budget) budget.reserved += charge.amount;
    }
    return {
      verdict: "admitted",
      effectId: effect.effectId,
      issuedUnder: "ordinary",
      permitExpiresAtMs: permitExpiry(facts, effect),
      charges,
    };
  });
}

/** The eight checks of protocol section 5, by the words that an explanation uses. */
export const CHECKS = ["binding", "operation", "task", "policy", "permit", "budget", "doubt", "ledger"] as const;
export type Check = (typeof CHECKS)[number];

type Room = ReadonlyMap<string, BudgetFacts>;
type Find = (facts: AdmissionFacts, effect: EffectFacts, room: Room) => Denial | null;

/** What can stand against an effect, in the denials' order of precedence, each with the check that it belongs to. */
const REASONS: readonly (readonly [check: Check, find: Find])[] = [
  ["ledger", ledgerDenial],
  ["binding", bindingDenial],
  ["operation", operationDenial],
  ["task", taskDenial],
  ["task", actorDenial],
  ["operation", pauseDenial],
  ["binding", timeDenial],
  ["policy", policyDenial],
  ["budget", budgetDenial],
];

/** The first reason against an effect, in the list's order of precedence; null where none stands. */
function firstDenial(facts: AdmissionFacts, effect: EffectFacts, room: Room): Denial | null {
  for (const [, find] of REASONS) {
    const denial = find(facts, effect, room);
    if (denial) return denial;
  }
  return null;
}

/** One line of an explanation: a check, and what stands against the effect there. */
export interface CheckLine {
  readonly check: Check;
  readonly denial: (Denial & { readonly waitingFor: WaitingFor | null }) | null;
}

/** The admission decision of now for one effect, as its eight checks: by the same functions that decide. */
export function explainAdmission(facts: AdmissionFacts, effect: EffectFacts): readonly CheckLine[] {
  const room = new Map(facts.budgets.map((budget) => [budgetKey(budget.taskId, budget.unit), budget]));
  return CHECKS.map((check) => {
    const reasons = REASONS.filter(([each]) => each === check);
    const denial = reasons.map(([, find]) => find(facts, effect, room)).find((found) => found !== null);
    return { check, denial: denial ? { ...denial, waitingFor: DENIALS[denial.code] } : null };
  });
}

function ledgerDenial(facts: AdmissionFacts): Denial | null {
  if (facts.identity === "unacknowledged") return deny("recovery_unacknowledged");
  if (facts.identity === "standby") return deny("ledger_standby");
  if (facts.durabilityGap !== null) return deny("durability_missing", { settings: facts.durabilityGap });
  return null;
}

function bindingDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  if (effect.expiresAtMs <= facts.nowMs) return deny("binding_expired");
  if (!effect.bytesMatch) return deny("binding_mismatch");
  if (!effect.payloadMatch) return deny("payload_mismatch");
  return null;
}

function operationDenial(_facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  if (effect.operation.withdrawn) return deny("operation_withdrawn");
  if (effect.operation.protected && !effect.operation.allowed) return deny("operation_not_allowed");
  if (effect.implementation !== effect.implementationNow) {
    return deny(effect.revision >= REVISIONS_MAX ? "binding_unstable" : "implementation_changed");
  }
  return null;
}

function taskDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  const chain = effect.lineage.map((taskId) => facts.tasks.get(taskId));
  if (chain.some((task) => task === undefined || task.revoked)) return deny("task_revoked");
  if (chain.some((task) => task?.ended)) return deny("task_ended");
  if (chain.some((task) => task && task.deadlineMs !== null && task.deadlineMs <= facts.nowMs))
    return deny("task_expired");
  return null;
}

function actorDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  return facts.actors.get(effect.actor)?.revoked === false ? null : deny("actor_revoked", { actor: effect.actor });
}

function timeDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  return effect.notBeforeMs !== null && effect.notBeforeMs > facts.nowMs ? deny("not_yet") : null;
}

function pauseDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  const pause = facts.pauses.find((each) => covers(each, facts, effect));
  return pause ? deny("paused", { scope: pause.scope, target: pause.target, reason: pause.reason }) : null;
}

function covers({ scope, target }: Pause, facts: AdmissionFacts, effect: EffectFacts): boolean {
  switch (scope) {
    case "operation":
      return target === effect.operation.name;
    case "task":
      return effect.lineage.some((taskId) => facts.tasks.get(taskId)?.name === target);
    case "target":
      return effect.target.startsWith(target);
    case "all":
      return true;
  }
}

function policyDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  const policy = facts.policies.get(effect.policyId);
  if (!policy) return deny("policy_missing");
  return policy.revoked ? deny("policy_revoked", { policy: policy.name }) : null;
}

function budgetDenial(_facts: AdmissionFacts, effect: EffectFacts, room: Room): Denial | null {
  const charged = chargesOf(effect, room).map((charge) => ({
    ...charge,
    budget: room.get(budgetKey(charge.taskId, charge.unit)) as BudgetFacts,
  }));
  const beyond = charged.find(({ amount, budget }) => amount > budget.limit - budget.spent - budget.overrun);
  if (beyond) return deny("budget_exceeded", shortfall(beyond.amount, beyond.budget, 0n));
  const held = charged.find(
    ({ amount, budget }) => amount > budget.limit - budget.spent - budget.overrun - budget.reserved,
  );
  return held ? deny("budget_held", shortfall(held.amount, held.budget, held.budget.reserved)) : null;
}

function shortfall(needed: bigint, budget: BudgetFacts, reserved: bigint): Record<string, string> {
  const left = budget.limit - budget.spent - budget.overrun - reserved;
  return { task: budget.taskId, unit: budget.unit, needed: needed.toString(), left: left.toString() };
}

/** One charge on every ancestor that budgets a unit of the cost. */
function chargesOf(effect: EffectFacts, room: ReadonlyMap<string, BudgetFacts>): readonly Charge[] {
  return Object.entries(effect.cost).flatMap(([unit, amount]) =>
    effect.lineage.filter((taskId) => room.has(budgetKey(taskId, unit))).map((taskId) => ({ taskId, unit, amount })),
  );
}

/** A permit expires with the smallest of its horizons: the binding's and every task's. */
function permitExpiry(facts: AdmissionFacts, effect: EffectFacts): number {
  const deadlines = effect.lineage.map((taskId) => facts.tasks.get(taskId)?.deadlineMs ?? Number.POSITIVE_INFINITY);
  return Math.min(effect.expiresAtMs, ...deadlines);
}

const DECLINED_AS: Partial<Record<DenialCode, DeclinedReason>> = {
  binding_expired: "expired",
  task_expired: "expired",
  task_revoked: "revoked",
  actor_revoked: "revoked",
  policy_revoked: "revoked",
  operation_withdrawn: "revoked",
  approval_refused: "refused",
};

function denied(facts: AdmissionFacts, effect: EffectFacts, denial: Denial): Verdict {
  const waitingFor = DENIALS[denial.code];
  if (waitingFor === null || effect.onDenial === "decline") {
    return {
      verdict: "declined",
      effectId: effect.effectId,
      reason: DECLINED_AS[denial.code] ?? "denied",
      ...denial,
    };
  }
  const wanted = denial.code === "not_yet" ? (effect.notBeforeMs ?? 0) - facts.nowMs : RETRY_AFTER_MS[waitingFor];
  // Not later than its expiry: then it is declined, and whoever waits for it learns so. What has expired behind an
  // earlier denial (a closed ledger, say) waits as long as that one asks for.
  const left = effect.expiresAtMs - facts.nowMs;
  const retryAfterMs = left > 0 ? Math.min(wanted, left) : wanted;
  return { verdict: "waits", effectId: effect.effectId, waitingFor, retryAfterMs, ...denial };
}

function deny(code: DenialCode, detail: Readonly<Record<string, string>> = {}): Denial {
  return { code, detail };
}

function budgetKey(taskId: string, unit: string): string {
  return `${taskId} ${unit}`;
}
