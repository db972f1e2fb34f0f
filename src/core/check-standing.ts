/** How each of the eight checks stands for an effect, in facts: what an explanation prints beside `ok`. */
import type { AdmissionFacts, EffectFacts } from "./facts.ts";
import { approvalsOf, type Check, ownersPolicy } from "./reasons.ts";
import type { Room } from "./room.ts";

/** Words and digits by name; empty where there is nothing to say. */
export type CheckStanding = Readonly<Record<string, string>>;

/** What there is to say about a check, for an effect that is not denied there. */
export function standingOf(check: Check, facts: AdmissionFacts, effect: EffectFacts, room: Room): CheckStanding {
  switch (check) {
    case "operation":
      return { protection: effect.operation.protected ? "protected" : "unprotected" };
    case "task":
      return { path: effect.lineage.map((taskId) => facts.tasks.get(taskId)?.name ?? taskId).join(" > ") };
    case "policy":
      return policyStanding(facts, effect, room);
    case "budget":
      return budgetStanding(facts, effect, room);
    case "doubt":
      return doubtStanding(facts, effect, room);
    default:
      return {};
  }
}

function policyStanding(facts: AdmissionFacts, effect: EffectFacts, room: Room): CheckStanding {
  const policy = ownersPolicy(facts, effect);
  if (!policy) return effect.policyId === null ? {} : { policy: facts.policies.get(effect.policyId)?.name ?? "" };
  const left = room.admissionsLeft(policy);
  return {
    policy: policy.name,
    ...(left !== null && { admissions_left: left.toString() }),
    approvals:
      policy.approvalsNeeded === 0
        ? "automatic"
        : `${approvalsOf(facts, effect, policy).counted.length} of ${policy.approvalsNeeded}`,
  };
}

/** The tightest budget of each unit that it costs. */
function budgetStanding(facts: AdmissionFacts, effect: EffectFacts, room: Room): CheckStanding {
  const tightest = new Map<string, { readonly task: string; readonly left: bigint }>();
  for (const { taskId, unit } of room.chargesOf(effect)) {
    const budget = room.budget(taskId, unit);
    if (!budget) continue;
    const left = budget.limit - budget.spent - budget.overrun - budget.reserved;
    if (left < (tightest.get(unit)?.left ?? left + 1n)) {
      tightest.set(unit, { task: facts.tasks.get(taskId)?.name ?? taskId, left });
    }
  }
  return Object.fromEntries(
    Object.entries(effect.cost).map(([unit, needed]) => {
      const at = tightest.get(unit);
      return [unit, at ? `${needed} of ${at.left} left in ${at.task}` : `${needed}, not budgeted`];
    }),
  );
}

function doubtStanding(facts: AdmissionFacts, effect: EffectFacts, room: Room): CheckStanding {
  const policy = ownersPolicy(facts, effect);
  return {
    ...(policy && {
      open: policy.openMax === null ? room.openNow(policy).toString() : `${room.openNow(policy)} of ${policy.openMax}`,
    }),
    ...(effect.lane !== null && { lane: effect.lane }),
    ...(effect.follows !== null && { follows: effect.follows }),
  };
}
