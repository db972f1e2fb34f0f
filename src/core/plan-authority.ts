/**
 * What is to be done so that the ledger's authority is as a reviewed file says. Pure: the file and what stands go in, the
 * changes come out, in the order in which they are made. What the file does not mention is left alone.
 */
import type { Draft } from "./plan-draft.ts";
import { planActors, planApprovers } from "./plan-people.ts";
import { planOperations, planPolicies, planTasks } from "./plan-rules.ts";
import type { AuthorityChange, PlannedChange, PresentAuthority, Problem, WantedAuthority } from "./wanted-authority.ts";

export interface Plan {
  readonly changes: readonly PlannedChange[];
  readonly problems: readonly Problem[];
}

/**
 * Taking away comes first, so that what covers the same can be added; then what others stand on; and an operation is
 * protected when its implementations are allowed and its policies are there.
 */
const ORDER: readonly AuthorityChange["do"][] = [
  "revoke_policy",
  "revoke_approver",
  "revoke_task",
  "withdraw_operation",
  "revoke_speaker",
  "revoke_actor",
  "add_actor",
  "open_root_task",
  "set_budget",
  "add_approver",
  "allow_operation",
  "add_policy",
  "protect_operation",
  "set_ledger",
];

/** The plan; with problems it cannot be carried out. */
export function planAuthority(wanted: WantedAuthority, present: PresentAuthority): Plan {
  const changes: PlannedChange[] = [];
  const problems: Problem[] = [];
  const draft: Draft = {
    change: (at, planned) => void changes.push({ at, ...planned }),
    problem: (at, says) => void problems.push({ at, says }),
  };
  for (const part of [planLedger, planActors, planTasks, planOperations, planApprovers, planPolicies]) {
    part(draft, wanted, present);
  }
  const rank = ({ change }: PlannedChange) => ORDER.indexOf(change.do);
  return { changes: changes.toSorted((a, b) => rank(a) - rank(b)), problems };
}

function planLedger(draft: Draft, { ledger }: WantedAuthority, present: PresentAuthority): void {
  const { name, strict } = present.ledger;
  if (ledger.name !== undefined && ledger.name !== name) draft.problem("ledger.name", `this is the ledger ${name}`);
  if (ledger.strict === undefined || ledger.strict === strict) return;
  draft.change("ledger.strict", {
    kind: "changed",
    object: `ledger ${name}`,
    before: strict ? "strict" : "not strict",
    after: ledger.strict ? "strict" : "not strict",
    change: { do: "set_ledger", strict: ledger.strict },
  });
}
