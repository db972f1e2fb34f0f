/** The parts of a plan that are about rules: root tasks with their budgets, operations, and policies. */
import { adding, type Draft, revoking, same, words } from "./plan-draft.ts";
import type { PolicyRules, PresentAuthority, WantedAuthority, WantedTask } from "./wanted-authority.ts";

export function planTasks(draft: Draft, { tasks }: WantedAuthority, present: PresentAuthority): void {
  for (const [place, task] of tasks.entries()) {
    const at = `tasks[${place}]`;
    const { name, budgets, revoked } = task;
    const object = `task ${name}`;
    const known = present.tasks.find((each) => each.name === name);
    if (revoked) {
      if (!known) draft.problem(at, `no task is named ${name}, so nothing of it can be revoked`);
      else if (!known.over) draft.change(at, revoking(object, { do: "revoke_task", name }));
      continue;
    }
    if (!known) {
      draft.change(at, adding(object, taskWords(task), { do: "open_root_task", task }));
      continue;
    }
    if (!known.root) draft.problem(at, `the task ${name} stands under another: the file is about roots`);
    if (known.over) draft.problem(at, `the task ${name} is over, for good: open another one`);
    for (const field of ["subject", "actor", "deadline"] as const) {
      if (task[field] === undefined || same(task[field], known[field])) continue;
      draft.problem(`${at}.${field}`, `it is ${words(known[field])}, and a task's ${field} is never changed`);
    }
    for (const [unit, limit] of Object.entries(budgets)) {
      const before = present.budgets.find((each) => each.task === name && each.unit === unit)?.limit ?? null;
      if (before === limit) continue;
      draft.change(`${at}.budgets.${unit}`, {
        kind: before === null ? "added" : "changed",
        object: `budget ${unit} of ${object}`,
        before,
        after: limit,
        change: { do: "set_budget", name, unit, limit },
      });
    }
  }
}

export function planOperations(draft: Draft, { operations }: WantedAuthority, present: PresentAuthority): void {
  for (const [place, { operation, versions, ...wanted }] of operations.entries()) {
    const at = `operations[${place}]`;
    const registered = present.operations.filter((each) => each.operation === operation);
    if (registered.length === 0) {
      draft.problem(at, `no operation is named ${operation}: start a worker that has it, once`);
      continue;
    }
    if (wanted.protected && !registered.some((each) => each.protected)) {
      const change = { do: "protect_operation", operation } as const;
      const after = "protected, for good";
      draft.change(`${at}.protected`, {
        kind: "changed",
        object: `operation ${operation}`,
        before: "unprotected",
        after,
        change,
      });
    }
    for (const [index, { version, allowed_implementation: wants, withdrawn }] of versions.entries()) {
      const here = `${at}.versions[${index}]`;
      const object = `operation ${operation} ${version}`;
      const known = registered.find((each) => each.version === version);
      if (!known) draft.problem(here, `there is no version ${version} of ${operation}`);
      else if (withdrawn) {
        if (!known.withdrawn) draft.change(here, revoking(object, { do: "withdraw_operation", operation, version }));
      } else if (wants === undefined || known.allowed_implementation === wants) continue;
      else if (known.withdrawn) draft.problem(here, `version ${version} of ${operation} is withdrawn, for good`);
      else if (known.implementation !== wants) {
        const says = `the implementation registered now is ${known.implementation}: review that one, or start the worker of the other`;
        draft.problem(`${here}.allowed_implementation`, says);
      } else {
        draft.change(`${here}.allowed_implementation`, {
          kind: known.allowed_implementation === null ? "added" : "changed",
          object: `allowed implementation of ${object}`,
          before: known.allowed_implementation,
          after: wants,
          change: { do: "allow_operation", operation, version, implementation: wants },
        });
      }
    }
  }
}

export function planPolicies(draft: Draft, { policies, tasks }: WantedAuthority, present: PresentAuthority): void {
  for (const [place, { name, rules }] of policies.entries()) {
    const at = `policies[${place}]`;
    const object = `policy ${name}`;
    const known = present.policies.find((each) => each.name === name);
    if (rules === null) {
      if (!known) draft.problem(at, `no policy is named ${name}, so nothing can be revoked`);
      else if (!known.revoked) draft.change(at, revoking(object, { do: "revoke_policy", name }));
      continue;
    }
    if (known) {
      const differs = Object.keys(rules).filter((field) => {
        const key = field as keyof PolicyRules;
        return !same(rules[key], known.rules[key]);
      });
      if (known.revoked) draft.problem(at, `the policy ${name} is revoked, for good: add one of another name`);
      else if (differs.length > 0) {
        const says = `the policy ${name} has another ${differs.join(", ")}, and a policy is never changed: revoke it, and add one of another name`;
        draft.problem(`${at}.${differs[0]}`, says);
      }
      continue;
    }
    const { operation, version, task } = rules;
    if (!present.operations.some((each) => each.operation === operation && each.version === version)) {
      draft.problem(
        `${at}.operation`,
        `there is no version ${version} of ${operation}: start a worker that has it, once`,
      );
    } else if (![...present.tasks, ...tasks].some((each) => each.name === task)) {
      draft.problem(`${at}.task`, `no task is named ${task}`);
    } else {
      draft.change(at, adding(object, `${operation} ${version} under ${task}`, { do: "add_policy", name, rules }));
    }
  }
}

function taskWords({ subject, actor, deadline, budgets }: WantedTask): string {
  return [
    subject !== undefined && `subject ${subject}`,
    `actor ${actor ?? "any"}`,
    deadline && `until ${deadline.toISOString()}`,
    ...Object.entries(budgets).map(([unit, limit]) => `${limit} ${unit}`),
  ]
    .filter(Boolean)
    .join(", ");
}
