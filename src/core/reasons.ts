/**
 * What can stand against an effect's admission: one function for each kind of reason, and the order in which they are
 * asked, which is the order of the denials' closed list (protocol, section 5).
 */
import { type CountedApprovals, countApprovals } from "./approval.ts";
import type { DenialCode } from "./denial.ts";
import type { AdmissionFacts, BudgetFacts, EffectFacts, OwnersPolicy, Pause, PolicyFacts } from "./facts.ts";
import { INLINE_OPERATION } from "./operation.ts";
import { covers } from "./policy.ts";
import { REBINDINGS_MAX, whyBindAgain } from "./rebind.ts";
import type { Room } from "./room.ts";

/** The eight checks of protocol section 5, by the words that an explanation uses. */
export const CHECKS = ["binding", "operation", "task", "policy", "permit", "budget", "doubt", "ledger"] as const;
export type Check = (typeof CHECKS)[number];

export interface Denial {
  readonly code: DenialCode;
  readonly detail: Readonly<Record<string, string>>;
  /** When to look again, in milliseconds, where it is not what its kind of waiting has. */
  readonly retryAfterMs?: number;
}

type Find = (facts: AdmissionFacts, effect: EffectFacts, room: Room) => Denial | null;

/** In order of precedence, each with the check that it belongs to. */
export const REASONS: readonly (readonly [check: Check, find: Find])[] = [
  ["ledger", ledgerDenial],
  ["binding", bindingDenial],
  ["operation", operationDenial],
  ["task", taskDenial],
  ["task", actorDenial],
  ["operation", pauseDenial],
  ["binding", timeDenial],
  ["policy", policyDenial],
  ["policy", approvalDenial],
  ["doubt", predecessorDenial],
  ["budget", budgetDenial],
  ["doubt", doubtDenial],
  ["doubt", laneDenial],
];

/** The first reason against an effect; null where none stands. */
export function firstDenial(facts: AdmissionFacts, effect: EffectFacts, room: Room): Denial | null {
  for (const [, find] of REASONS) {
    const denial = find(facts, effect, room);
    if (denial) return denial;
  }
  return null;
}

/** The owner's policy that an effect was bound to, or null. */
export function ownersPolicy(facts: AdmissionFacts, effect: EffectFacts): OwnersPolicy | null {
  const policy = policyOf(facts, effect);
  return policy?.kind === "owner" ? policy : null;
}

/** The approvals of an effect, as they count for what would be admitted now. */
export function approvalsOf(facts: AdmissionFacts, effect: EffectFacts, policy: OwnersPolicy): CountedApprovals {
  return countApprovals(facts.approvals.get(effect.effectId) ?? [], {
    nowMs: facts.nowMs,
    ledger: facts.ledgerId,
    epoch: facts.epoch,
    effectId: effect.effectId,
    digest: effect.digest,
    cost: effect.cost,
    requesters: [effect.actor, effect.requestedBy],
    policy,
  });
}

function ledgerDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  if (facts.identity === "unacknowledged") return deny("recovery_unacknowledged");
  if (!facts.remembered) return deny("recovery_unacknowledged", { missing: "an admission that was confirmed" });
  if (facts.violated) return deny("violation_unacknowledged");
  const policy = ownersPolicy(facts, effect);
  if (policy?.suspended) return deny("recovery_unacknowledged", { policy: policy.name });
  const budget = facts.budgets.find(
    ({ taskId, unit, suspended }) => suspended && unit in effect.cost && effect.lineage.includes(taskId),
  );
  if (budget) return deny("recovery_unacknowledged", { budget: budget.unit, task: budget.taskId });
  if (facts.identity === "standby") return deny("ledger_standby");
  if (facts.durabilityGap !== null) return deny("durability_missing", { settings: facts.durabilityGap });
  return null;
}

function bindingDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  if (effect.expiresAtMs <= facts.nowMs) return deny("binding_expired");
  if (!effect.bytesMatch) return deny("binding_mismatch");
  if (!effect.payloadMatch) return deny("payload_mismatch");
  if (effect.invocationEnded) return deny("invocation_ended");
  return null;
}

/** How long an effect waits for a worker that runs what the owner allowed, in milliseconds. */
const ALLOWED_WORKER_AFTER_MS = 5_000;

function operationDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  const { operation, running } = effect;
  const policy = policyOf(facts, effect);
  if (operation.withdrawn) return deny("operation_withdrawn");
  if (operation.protected) {
    // What a host runs itself has no implementation that an owner could allow.
    if (operation.name === INLINE_OPERATION) return deny("unsupported", { lacks: "an operation's own code" });
    if (operation.allowedImplementation === null) return deny("operation_not_allowed");
    if (lacksPrecondition(effect, policy)) return deny("unsupported", { lacks: "an enforced precondition" });
    if (operation.allowedImplementation !== running.implementation) {
      const detail = { runs: running.implementation, allowed: operation.allowedImplementation };
      return { ...deny("implementation_changed", detail), retryAfterMs: ALLOWED_WORKER_AFTER_MS };
    }
  }
  const changed = whyBindAgain(
    {
      ...effect,
      policyKind: policy?.kind ?? null,
      policyPreparedWithinMs: policy?.kind === "owner" ? policy.preparedWithinMs : null,
    },
    running,
    facts.nowMs,
  );
  if (changed === null) return null;
  const unstable = changed !== "stale" && effect.rebindings >= REBINDINGS_MAX;
  return deny(unstable ? "binding_unstable" : "implementation_changed", { changed });
}

/** Where a precondition must be the recipient's own, the contract has to say so and the binding has to state one. */
function lacksPrecondition({ running, conditional }: EffectFacts, policy: PolicyFacts | undefined): boolean {
  const wanted = running.precondition === "enforced" || (policy?.kind === "owner" && policy.preconditionEnforced);
  return wanted && !(running.precondition === "enforced" && conditional);
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
  const actor = facts.actors.get(effect.actor);
  return actor && !actor.revoked && effect.entitled ? null : deny("actor_revoked", { actor: effect.actor });
}

function timeDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  if (effect.notBeforeMs === null || effect.notBeforeMs <= facts.nowMs) return null;
  return { ...deny("not_yet"), retryAfterMs: effect.notBeforeMs - facts.nowMs };
}

function pauseDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  const pause = facts.pauses.find((each) => pauseCovers(each, facts, effect));
  return pause ? deny("paused", { scope: pause.scope, target: pause.target, reason: pause.reason }) : null;
}

function pauseCovers({ scope, target }: Pause, facts: AdmissionFacts, effect: EffectFacts): boolean {
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

function policyOf(facts: AdmissionFacts, effect: EffectFacts): PolicyFacts | undefined {
  return effect.policyId === null ? undefined : facts.policies.get(effect.policyId);
}

function policyDenial(facts: AdmissionFacts, effect: EffectFacts, room: Room): Denial | null {
  const policy = policyOf(facts, effect);
  if (!policy) return deny("policy_missing");
  const detail = { policy: policy.name };
  if (policy.revoked) return deny("policy_revoked", detail);
  if (policy.kind === "ordinary") return null;
  const { name: operation, version } = effect.operation;
  if (!covers(policy, { ...effect, operation, version })) return deny("policy_missing", detail);
  if (policy.expiresAtMs !== null && policy.expiresAtMs <= facts.nowMs) return deny("policy_expired", detail);
  const left = room.admissionsLeft(policy);
  return left !== null && left <= 0n ? deny("policy_exhausted", detail) : null;
}

function approvalDenial(facts: AdmissionFacts, effect: EffectFacts): Denial | null {
  const policy = ownersPolicy(facts, effect);
  if (!policy || policy.approvalsNeeded === 0) return null;
  const { counted, not } = approvalsOf(facts, effect, policy);
  if (counted.length >= policy.approvalsNeeded) return null;
  const because = Object.entries(not).map(([approvalId, why]) => `${approvalId} ${why}`);
  return deny("approval_required", {
    policy: policy.name,
    needed: String(policy.approvalsNeeded),
    counted: String(counted.length),
    ...(because.length > 0 && { not_counted: because.slice(0, 10).join(", ") }),
  });
}

function predecessorDenial(_facts: AdmissionFacts, { against }: EffectFacts): Denial | null {
  return against && deny(`predecessor_${against.said}`, { predecessor: against.effectId });
}

function budgetDenial(_facts: AdmissionFacts, effect: EffectFacts, room: Room): Denial | null {
  const charged = room.chargesOf(effect).map((charge) => ({
    ...charge,
    budget: room.budget(charge.taskId, charge.unit) as BudgetFacts,
  }));
  if (effect.operation.protected) {
    const unbudgeted = Object.keys(effect.cost).find((unit) => !charged.some((charge) => charge.unit === unit));
    if (unbudgeted !== undefined) return deny("budget_missing", { unit: unbudgeted });
  }
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

function doubtDenial(facts: AdmissionFacts, effect: EffectFacts, room: Room): Denial | null {
  const policy = ownersPolicy(facts, effect);
  if (!policy || policy.openMax === null || room.openNow(policy) < policy.openMax) return null;
  return deny("doubt_limit", {
    policy: policy.name,
    open: room.openNow(policy).toString(),
    open_max: policy.openMax.toString(),
  });
}

function laneDenial(_facts: AdmissionFacts, effect: EffectFacts, room: Room): Denial | null {
  return room.laneIsBusy(effect) ? deny("lane_busy", { lane: effect.lane ?? "" }) : null;
}

function deny(code: DenialCode, detail: Readonly<Record<string, string>> = {}): Denial {
  return { code, detail };
}
