/**
 * Reads of effects for the command line: Kysely over the audit views, one statement a question, every list bounded. It
 * never writes and decides nothing. What it reads of the ledger as a whole is in audit-ledger.ts, of reconciliations in
 * audit-reconciliation.ts.
 */
import { type ExpressionBuilder, Kysely, PostgresDialect, sql } from "kysely";
import type pg from "pg";
import type { State } from "../core/state.ts";
import type {
  AuditCost,
  AuditDatabase,
  AuditEffect,
  AuditEvidence,
  AuditInspection,
  AuditTimeline,
  AuditUnresolved,
} from "./audit-schema.ts";

/** A reader of the audit schema. */
export type Audit = Kysely<AuditDatabase>;

/** A reader on a pool, which stays its opener's to end. */
export function auditOn(pool: pg.Pool): Audit {
  return new Kysely<AuditDatabase>({ dialect: new PostgresDialect({ pool }) });
}

/** The database's clock, by which every age is told. */
export async function readClock(audit: Audit): Promise<Date> {
  const { now } = await audit.selectNoFrom(sql<Date>`clock_timestamp()`.as("now")).executeTakeFirstOrThrow();
  return now;
}

/** How an effect may be named: by its own id, by its key, or by what people call it. */
export type EffectNaming =
  | { readonly by: "id" | "key"; readonly value: string }
  /** Its name, `task:name`, the recipient's reference, or the last eight hex digits of its id. */
  | { readonly by: "words"; readonly value: string };

/** The effects that a naming may mean, newest first, at most `limit`. */
export async function findEffects(audit: Audit, naming: EffectNaming, limit: number): Promise<readonly AuditEffect[]> {
  // The ids first, without the columns that join the bodies: a name is looked for among all effects.
  const ids = audit
    .selectFrom("audit.effects")
    .select("effect_id")
    .where((eb) => matching(eb, naming))
    .orderBy("requested_at", "desc")
    .limit(limit);
  return audit
    .selectFrom("audit.effects")
    .selectAll()
    .where("effect_id", "in", ids)
    .orderBy("requested_at", "desc")
    .orderBy("effect_id", "desc")
    .execute();
}

function matching(eb: ExpressionBuilder<AuditDatabase, "audit.effects">, { by, value }: EffectNaming) {
  if (by === "id") return eb("effect_id", "=", value);
  if (by === "key") return eb("key", "=", value);
  const meanings = [
    eb("name", "=", value),
    eb("reference", "=", value),
    eb(sql<string>`task_name || ':' || name`, "=", value),
  ];
  if (/^[0-9a-f]{8}$/.test(value)) meanings.push(eb(sql<string>`right(effect_id::text, 8)`, "=", value));
  return eb.or(meanings);
}

export interface EffectFilter {
  readonly state?: State | undefined;
  readonly operation?: string | undefined;
  readonly task?: string | undefined;
  readonly since?: Date | undefined;
  readonly limit: number;
}

/** Effects, newest first. */
export async function listEffects(audit: Audit, filter: EffectFilter): Promise<readonly AuditEffect[]> {
  const { state, operation, task, since, limit } = filter;
  return audit
    .selectFrom("audit.effects")
    .selectAll()
    .$if(state !== undefined, (query) => query.where("state", "=", state ?? "requested"))
    .$if(operation !== undefined, (query) => query.where("operation", "=", operation ?? ""))
    .$if(task !== undefined, (query) => query.where("task_name", "=", task ?? ""))
    .$if(since !== undefined, (query) => query.where("requested_at", ">=", since ?? new Date(0)))
    .orderBy("requested_at", "desc")
    .orderBy("effect_id", "desc")
    .limit(limit)
    .execute();
}

/** What is on record about one effect, beside its own row. */
export interface EffectStory {
  readonly costs: readonly AuditCost[];
  readonly evidence: readonly AuditEvidence[];
  readonly inspections: readonly AuditInspection[];
  readonly timeline: readonly AuditTimeline[];
  /** What to do about why it waits or was declined. */
  readonly hint: string | null;
}

/** Rows of one list in a story. An effect with more has been asked about for years; the newest are shown. */
const STORY_ROWS_MAX = 1_000;

export async function readStory(audit: Audit, effect: AuditEffect): Promise<EffectStory> {
  const { effect_id, denial_code } = effect;
  const costs = await audit
    .selectFrom("audit.costs")
    .selectAll()
    .where("effect_id", "=", effect_id)
    .orderBy("unit")
    .execute();
  const evidence = await audit
    .selectFrom("audit.evidence")
    .selectAll()
    .where("effect_id", "=", effect_id)
    .orderBy("at", "desc")
    .limit(STORY_ROWS_MAX)
    .execute();
  const inspections = await audit
    .selectFrom("audit.inspections")
    .selectAll()
    .where("effect_id", "=", effect_id)
    .orderBy("begun_at", "desc")
    .limit(STORY_ROWS_MAX)
    .execute();
  const timeline = await audit
    .selectFrom("audit.timeline")
    .selectAll()
    .where("effect_id", "=", effect_id)
    .orderBy("at", "desc")
    .limit(STORY_ROWS_MAX)
    .execute();
  const denial = await audit
    .selectFrom("effects_ledger.denial")
    .select("hint")
    .where("code", "=", denial_code)
    .executeTakeFirst();
  return {
    costs,
    evidence: evidence.toReversed(),
    inspections: inspections.toReversed(),
    timeline: timeline.toReversed(),
    hint: denial?.hint ?? null,
  };
}

/** What is unresolved, oldest first. */
export async function listUnresolved(audit: Audit, limit: number): Promise<readonly AuditUnresolved[]> {
  return audit.selectFrom("audit.unresolved").selectAll().orderBy("since").limit(limit).execute();
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

/** Whether anything goes by this name: an empty list and a mistyped name must not look the same. */
export async function isKnown(audit: Audit, kind: "operation" | "task", name: string): Promise<boolean> {
  const found =
    kind === "operation"
      ? await audit
          .selectFrom("effects.operations")
          .select("operation")
          .where("operation", "=", name)
          .executeTakeFirst()
      : await audit.selectFrom("effects_ledger.task").select("name").where("name", "=", name).executeTakeFirst();
  return found !== undefined;
}
