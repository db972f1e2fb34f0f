/** Parameters to the functions that change authority, as a plan wants them. The functions decide and record. */
import type { AuthorityChange, PolicyRules, WantedTask } from "../core/wanted-authority.ts";
import {
  ADD_APPROVER,
  ADD_POLICY,
  ALLOW_OPERATION,
  PROTECT_OPERATION,
  REVOKE_APPROVER,
  REVOKE_POLICY,
  SET_LEDGER,
} from "../store/authority.ts";
import {
  ADD_ACTOR,
  OPEN_ROOT_TASK,
  REVOKE_ACTOR,
  REVOKE_SPEAKER,
  REVOKE_TASK,
  SET_BUDGET,
  WITHDRAW_OPERATION,
} from "../store/request.ts";
import type { Statement } from "./request.ts";

/** The statement that makes one change. */
export function authorityStatement(change: AuthorityChange, reason: string): Statement {
  switch (change.do) {
    case "revoke_policy":
      return { text: REVOKE_POLICY, values: [change.name, reason] };
    case "revoke_approver":
      return { text: REVOKE_APPROVER, values: [change.approver, reason] };
    case "revoke_task":
      return { text: REVOKE_TASK, values: [change.name, reason] };
    case "withdraw_operation":
      return { text: WITHDRAW_OPERATION, values: [change.operation, change.version, reason] };
    case "revoke_speaker":
      return { text: REVOKE_SPEAKER, values: [change.actor, change.login, reason] };
    case "revoke_actor":
      return { text: REVOKE_ACTOR, values: [change.actor, reason] };
    case "add_actor":
      return { text: ADD_ACTOR, values: [change.actor, reason, change.login] };
    case "open_root_task":
      return { text: OPEN_ROOT_TASK, values: taskValues(change.task, reason) };
    case "set_budget":
      return { text: SET_BUDGET, values: [change.name, change.unit, change.limit, reason] };
    case "add_approver":
      return { text: ADD_APPROVER, values: [change.approver, change.public_key, reason] };
    case "allow_operation":
      return { text: ALLOW_OPERATION, values: [change.operation, change.version, reason, change.implementation] };
    case "add_policy":
      return { text: ADD_POLICY, values: policyValues(change.name, change.rules, reason) };
    case "protect_operation":
      return { text: PROTECT_OPERATION, values: [change.operation, reason] };
    case "set_ledger":
      return { text: SET_LEDGER, values: [change.strict, reason] };
  }
}

/** The values of ADD_POLICY. */
export function policyValues(name: string, rules: PolicyRules, reason: string): readonly unknown[] {
  return [
    name,
    rules.operation,
    rules.version,
    reason,
    rules.task,
    rules.actor,
    rules.target,
    rules.target_match ?? "exact",
    limits(rules.costs),
    rules.admissions_max,
    rules.open_max,
    rules.approvals_needed,
    rules.approvers,
    rules.requester_excluded,
    rules.precondition_enforced,
    rules.prepared_within_ms,
    rules.expires_at,
  ];
}

function taskValues({ name, subject, actor, deadline, budgets }: WantedTask, reason: string): readonly unknown[] {
  return [name, reason, subject ?? null, actor ?? null, deadline ?? null, limits(budgets)];
}

/** As the functions read limits. */
function limits(amounts: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(amounts).map(([unit, limit]) => ({ unit, limit })));
}
