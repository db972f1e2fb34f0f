/**
 * Reads of effects for the command line: Kysely over the audit views, one statement a question, every list bounded. It
 * never writes and decides nothing. Each other question has a file of its own beside it: audit-*.ts.
 */
import { type Expression, type ExpressionBuilder, Kysely, PostgresDialect, type SqlBool, sql } from "kysely";
import type pg from "pg";
import type { State } from "../core/state.ts";
import type { AuditDatabase, AuditEffect } from "./audit-schema.ts";

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
  | { readonly by: "words"; readonly value: string }
  /** The same, or its target, which is in the bodies of all bindings and has no index: it takes its time. */
  | { readonly by: "words or target"; readonly value: string };

/** The effects that a naming may mean, newest first, at most `limit`. */
export async function findEffects(audit: Audit, naming: EffectNaming, limit: number): Promise<readonly AuditEffect[]> {
  // The ids first, each meaning by an index of its own, and as values: within one statement a planner reads the whole view.
  const [first, ...others] = meaningsOf(naming).map((meaning) =>
    audit.selectFrom("audit.effects").select(["effect_id", "requested_at"]).where(meaning),
  );
  if (!first) return [];
  const found = others.reduce((all, meaning) => all.union(meaning), first);
  const rows = await audit
    .selectFrom(found.as("found"))
    .select("found.effect_id")
    .orderBy("found.requested_at", "desc")
    .limit(limit)
    .execute();
  const ids = rows.map(({ effect_id }) => effect_id);
  if (ids.length === 0) return [];
  return audit
    .selectFrom("audit.effects")
    .selectAll()
    .where("effect_id", "in", ids)
    .orderBy("requested_at", "desc")
    .orderBy("effect_id", "desc")
    .execute();
}

/** Of effects that follow one another under one name, the one that it stands for: the last that was not declined. */
export const standsForItsName = sql<SqlBool>`(
  not exists (select from audit.effects later where later.effect_id = effects.followed_by and later.name = effects.name)
  and not (effects.state = 'declined' and exists
    (select from audit.effects earlier where earlier.effect_id = effects.follows and earlier.name = effects.name)))`;

type Meaning = (eb: ExpressionBuilder<AuditDatabase, "audit.effects">) => Expression<SqlBool>;

function meaningsOf({ by, value }: EffectNaming): readonly Meaning[] {
  if (by === "id") return [(eb) => eb("effect_id", "=", value)];
  if (by === "key") return [(eb) => eb("key", "=", value)];
  // Who looks for what there is wants the whole line of followers, and who means one effect the one that it stands for.
  const meant = by === "words" ? standsForItsName : sql<SqlBool>`true`;
  const meanings: Meaning[] = [(eb) => eb.and([eb("name", "=", value), meant]), (eb) => eb("reference", "=", value)];
  // What follows each colon may be the name: that has an index.
  const names = [...value.matchAll(/:/g)].map(({ index }) => value.slice(index + 1));
  if (names.length > 0) {
    meanings.push((eb) =>
      eb.and([eb("name", "in", names), eb(sql<string>`task_name || ':' || name`, "=", value), meant]),
    );
  }
  // What stands before each slash may be the run of an inline effect.
  const runs = [...value.matchAll(/\//g)].map(({ index }) => value.slice(0, index));
  if (runs.length > 0) {
    meanings.push((eb) => eb.and([eb("run", "in", runs), eb(sql<string>`run || '/' || name`, "=", value)]));
  }
  if (/^[0-9a-f]{8}$/.test(value)) meanings.push((eb) => eb(sql<string>`right(effect_id::text, 8)`, "=", value));
  if (by === "words or target") meanings.push((eb) => eb("target", "=", value));
  return meanings;
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

/** Whether anything goes by this name: an empty list and a mistyped name must not look the same. */
export async function isKnown(audit: Audit, kind: "operation" | "task", name: string): Promise<boolean> {
  const found =
    kind === "operation"
      ? await audit.selectFrom("audit.operations").select("operation").where("operation", "=", name).executeTakeFirst()
      : await audit.selectFrom("audit.tasks").select("name").where("name", "=", name).executeTakeFirst();
  return found !== undefined;
}
