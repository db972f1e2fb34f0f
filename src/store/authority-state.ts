/** How authority stands, of what a file mentions: reads of the audit views, on the connection of the transaction that changes it. */
import type pg from "pg";
import type { PolicyRules, PresentAuthority } from "../core/wanted-authority.ts";

/** What is looked up. */
export interface Mentioned {
  readonly actors: readonly string[];
  readonly tasks: readonly string[];
  readonly operations: readonly string[];
  readonly approvers: readonly string[];
  /** 64 hex digits each. */
  readonly keys: readonly string[];
  readonly policies: readonly string[];
}

type PolicyRow = Omit<PolicyRules, "approvals_needed"> & {
  readonly name: string;
  readonly revoked: boolean;
  readonly approvals_needed: number;
};

export async function readAuthority(client: pg.ClientBase, mentioned: Mentioned): Promise<PresentAuthority> {
  const { actors, tasks, operations, approvers, keys, policies } = mentioned;
  const all = async <Row extends object>(text: string, values: readonly unknown[] = []) =>
    (await client.query<Row>(text, [...values])).rows;
  const [ledger = { name: "", strict: false }] = await all<PresentAuthority["ledger"]>(
    "select name, strict from audit.ledger",
  );
  const policyRows = await all<PolicyRow>(
    `select p.name, p.revoked_at is not null as revoked, p.operation, p.version,
            (select t.name from audit.tasks t where t.path = p.task_path) as task, p.actor, p.target, p.target_match,
            (select coalesce(json_object_agg(c.unit, c.amount::text), '{}') from audit.policy_costs c where c.policy = p.name) as costs,
            p.admissions_max::text, p.open_max::text, p.approvals_needed,
            array(select a.approver from audit.policy_approvers a where a.policy = p.name order by 1) as approvers,
            p.requester_excluded, p.precondition_enforced,
            (extract(epoch from p.prepared_within) * 1000)::float8 as prepared_within_ms, p.expires_at
       from audit.policies p where p.name = any ($1) and p.operation is not null`,
    [policies],
  );
  return {
    ledger,
    actors: await all("select actor, revoked_at is not null as revoked from audit.actors where actor = any ($1)", [
      actors,
    ]),
    speakers: await all("select actor, spoken_by from audit.speakers where actor = any ($1)", [actors]),
    tasks: await all(
      `select name, parent is null as root, subject, actor, deadline, revoked_at is not null or ended_at is not null as over
         from audit.tasks where name = any ($1)`,
      [tasks],
    ),
    budgets: await all(
      `select t.name as task, b.unit, b.limit_amount::text as limit
         from audit.budgets b join audit.tasks t using (task) where t.name = any ($1)`,
      [tasks],
    ),
    operations: await all(
      `select operation, version, implementation, allowed_implementation, protected, withdrawn_at is not null as withdrawn
         from audit.operations where operation = any ($1) order by version`,
      [operations],
    ),
    approvers: await all(
      `select key_id, approver, public_key, revoked_at is not null as revoked
         from audit.approvers where approver = any ($1) or public_key = any ($2) order by key_id`,
      [approvers, keys],
    ),
    policies: policyRows.map(({ name, revoked, ...rules }) => ({ name, revoked, rules })),
  };
}
