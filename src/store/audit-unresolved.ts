/**
 * What is in doubt, one by one with what was last found about it, and in sums. Kysely over the audit views, every list
 * bounded. It never writes and decides nothing.
 */
import { sql } from "kysely";
import type { State } from "../core/state.ts";
import type { Audit } from "./audit.ts";
import type { AuditUnresolved } from "./audit-schema.ts";

/** An unresolved effect, with what decides how its doubt may end. */
export interface Doubt extends AuditUnresolved {
  readonly state: State;
  readonly admitted_under: string | null;
  /** The newest inspection; null where nobody has asked. `report` is null while it is unanswered. */
  readonly asked: {
    readonly reconciliation_id: string;
    readonly report: string | null;
    readonly reason: string | null;
    /** In ISO 8601: from when on the same report would be conclusive. */
    readonly conclusive_at: string | null;
    /** True until its reconciliation's deadline. */
    readonly may_answer: boolean;
  } | null;
  /** What its operation's contract offers beside a lookup. */
  readonly fence: boolean;
  readonly resubmission: boolean;
}

/** What is unresolved, oldest first; or one effect, if it is. */
export async function listUnresolved(audit: Audit, limit: number, effectId?: string): Promise<readonly Doubt[]> {
  return audit
    .selectFrom((eb) =>
      eb
        .selectFrom("audit.unresolved")
        .selectAll()
        .$if(effectId !== undefined, (query) => query.where("effect_id", "=", effectId ?? ""))
        .orderBy("since")
        .limit(limit)
        .as("u"),
    )
    .innerJoin("audit.effects as e", "e.effect_id", "u.effect_id")
    .leftJoin("audit.operations as o", (join) =>
      join.onRef("o.operation", "=", "e.operation").onRef("o.version", "=", "e.operation_version"),
    )
    .selectAll("u")
    .select(["e.state", "e.admitted_under"])
    .select([
      sql<Doubt["asked"]>`(select json_build_object('reconciliation_id', i.reconciliation_id, 'report', i.report,
          'reason', i.reason, 'conclusive_at', i.conclusive_at, 'may_answer', i.deadline > clock_timestamp())
        from audit.inspections i
        where i.effect_id = u.effect_id order by i.begun_at desc limit 1)`.as("asked"),
      sql<boolean>`coalesce(jsonb_typeof(o.contract -> 'fence') = 'object', false)`.as("fence"),
      sql<boolean>`coalesce(jsonb_typeof(o.contract -> 'idempotency') = 'object', false)`.as("resubmission"),
    ])
    .orderBy("u.since")
    .execute();
}

/** How much is unresolved. */
export async function countUnresolved(audit: Audit): Promise<bigint> {
  const { count } = await audit
    .selectFrom("audit.unresolved")
    .select((eb) => eb.fn.countAll<bigint>().as("count"))
    .executeTakeFirstOrThrow();
  return count;
}

export const UNRESOLVED_GROUPS = ["operation", "task", "target"] as const;
export type UnresolvedGroup = (typeof UNRESOLVED_GROUPS)[number];

export interface UnresolvedSum {
  readonly group: string | null;
  readonly count: bigint;
  readonly oldest: Date;
  readonly held: Readonly<Record<string, bigint>>;
}

/** What is unresolved, summed by operation, task path or target; the largest groups first. */
export async function sumUnresolved(
  audit: Audit,
  by: UnresolvedGroup,
  limit: number,
): Promise<readonly UnresolvedSum[]> {
  const column = { operation: "e.operation", task: "e.task_path", target: "e.target" } as const;
  const grouped = audit
    .selectFrom("audit.unresolved as u")
    .innerJoin("audit.effects as e", "e.effect_id", "u.effect_id")
    .select(`${column[by]} as group`);
  const sums = await grouped
    .select((eb) => [eb.fn.countAll<bigint>().as("count"), eb.fn.min("u.since").as("oldest")])
    .groupBy(column[by])
    .orderBy("count", "desc")
    .orderBy("group")
    .limit(limit)
    .execute();
  const amounts = await grouped
    .innerJoin("audit.costs as c", "c.effect_id", "u.effect_id")
    .where("c.standing", "=", "reserved")
    .select(["c.unit", sql<string>`sum(c.reserved)`.as("held")])
    .groupBy([column[by], "c.unit"])
    .orderBy("c.unit")
    .execute();
  return sums.map(({ group, count, oldest }) => ({
    group,
    count,
    oldest,
    held: Object.fromEntries(
      amounts.filter((amount) => amount.group === group).map(({ unit, held }) => [unit, BigInt(held)]),
    ),
  }));
}
