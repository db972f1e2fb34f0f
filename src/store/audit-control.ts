/**
 * Reads of authority for the command line: tasks with their place and budgets, operations, denials, and who changed what.
 * Kysely over the audit views, every list bounded. It never writes and decides nothing.
 */
import { sql } from "kysely";
import type { State } from "../core/state.ts";
import type { Audit } from "./audit.ts";
import type { AuditAuthority, AuditBudget, AuditOperation, AuditPause, AuditTask } from "./audit-schema.ts";

/** What to do about a denial's code; null where there is none. */
export async function readHint(audit: Audit, code: string | null): Promise<string | null> {
  const row = await audit.selectFrom("audit.denial_codes").select("hint").where("code", "=", code).executeTakeFirst();
  return row?.hint ?? null;
}

export async function readTask(audit: Audit, name: string): Promise<AuditTask | undefined> {
  return audit.selectFrom("audit.tasks").selectAll().where("name", "=", name).executeTakeFirst();
}

/** A task and every task above it, itself first. At most 16, as deep as a lineage may be. */
export async function readAbove(audit: Audit, task: string): Promise<readonly AuditTask[]> {
  return audit
    .withRecursive("above(task, depth)", (query) =>
      query
        .selectFrom("audit.tasks as t")
        .select(["t.task", sql<number>`1`.as("depth")])
        .where("t.task", "=", task)
        .unionAll(
          query
            .selectFrom("audit.tasks as t")
            .innerJoin("above as a", "a.task", "t.task")
            .select([sql<string>`t.parent`.as("task"), sql<number>`a.depth + 1`.as("depth")])
            .where("t.parent", "is not", null),
        ),
    )
    .selectFrom("above")
    .innerJoin("audit.tasks as t", "t.task", "above.task")
    .selectAll("t")
    .orderBy("above.depth")
    .execute();
}

/** How many effects of a task, and of those below it, are in each state. Those in doubt are counted apart. */
export async function countStates(
  audit: Audit,
  { task, root }: Pick<AuditTask, "task" | "root">,
): Promise<readonly { readonly state: State; readonly unresolved: boolean; readonly count: bigint }[]> {
  return audit
    .withRecursive("below(task)", (query) =>
      query
        .selectFrom("audit.tasks as t")
        .select("t.task")
        .where("t.task", "=", task)
        .union(
          query
            .selectFrom("audit.tasks as t")
            .innerJoin("below as b", "b.task", "t.parent")
            .select("t.task")
            .where("t.root", "=", root),
        ),
    )
    .selectFrom("below")
    .innerJoin("audit.effects as e", "e.task", "below.task")
    .select(["e.state", "e.unresolved"])
    .select((eb) => eb.fn.countAll<bigint>().as("count"))
    .groupBy(["e.state", "e.unresolved"])
    .orderBy("e.state")
    .execute();
}

/** The budgets of one task, by unit. */
export async function readBudgets(audit: Audit, task: string): Promise<readonly AuditBudget[]> {
  return audit.selectFrom("audit.budgets").selectAll().where("task", "=", task).orderBy("unit").execute();
}

/** The pauses of now that name a task. */
export async function readTaskPauses(audit: Audit, names: readonly string[]): Promise<readonly AuditPause[]> {
  return audit
    .selectFrom("audit.pauses")
    .selectAll()
    .where("scope", "=", "task")
    .where("target", "in", names)
    .execute();
}

/** Every registered version, without its contract. */
export type OperationLine = Omit<AuditOperation, "contract">;

export async function listOperations(audit: Audit, limit: number): Promise<readonly OperationLine[]> {
  return (
    audit
      .selectFrom("audit.operations")
      .select(["operation", "version", "contract_digest", "implementation", "release", "protected", "registered_at"])
      .select(["allowed_by", "allowed_at", "allowed_implementation", "withdrawn_at"])
      // Not paused_at, which also stays when a pause's own end has come.
      .select((eb) =>
        eb
          .selectFrom("audit.pauses as p")
          .select("p.paused_at")
          .where("p.scope", "=", "operation")
          .whereRef("p.target", "=", "audit.operations.operation")
          .as("paused_at"),
      )
      .orderBy("operation")
      .orderBy("version")
      .limit(limit)
      .execute()
  );
}

export const DENIAL_GROUPS = ["code", "operation", "task"] as const;
export type DenialGroup = (typeof DENIAL_GROUPS)[number];

export interface DenialSum {
  /** The operation or task; the code where it is summed by code. */
  readonly group: string;
  readonly code: string;
  readonly transient: boolean;
  readonly count: bigint;
  readonly last: Date;
  readonly hint: string | null;
}

/** Denials since a moment, summed by rule, and by operation or task where that is asked for; the most frequent first. */
export async function sumDenials(
  audit: Audit,
  { by, since, limit }: { readonly by: DenialGroup; readonly since: Date | undefined; readonly limit: number },
): Promise<readonly DenialSum[]> {
  const column = { code: "d.code", operation: "e.operation", task: "e.task_path" } as const;
  return audit
    .selectFrom("audit.denials as d")
    .innerJoin("audit.effects as e", "e.effect_id", "d.effect_id")
    .$if(since !== undefined, (query) => query.where("d.at", ">=", since ?? new Date(0)))
    .select([`${column[by]} as group`, "d.code", "d.transient", "d.hint"])
    .select((eb) => [eb.fn.countAll<bigint>().as("count"), eb.fn.max("d.at").as("last")])
    .groupBy([column[by], "d.code", "d.transient", "d.hint"])
    .orderBy("count", "desc")
    .orderBy("last", "desc")
    .limit(limit)
    .execute();
}

/** Changes of authority, the newest first. */
export async function listAuthority(
  audit: Audit,
  filter: { readonly since: Date | undefined; readonly by: string | undefined; readonly limit: number },
): Promise<readonly AuditAuthority[]> {
  const { since, by, limit } = filter;
  return audit
    .selectFrom("audit.authority")
    .selectAll()
    .$if(since !== undefined, (query) => query.where("at", ">=", since ?? new Date(0)))
    .$if(by !== undefined, (query) => query.where("by_role", "=", by ?? ""))
    .orderBy("seq", "desc")
    .limit(limit)
    .execute();
}
