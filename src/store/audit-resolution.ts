/**
 * Reads for whoever resolves: the effects that a list means, what stands about one already, and who may submit evidence.
 * Kysely over the audit views, every list bounded. It never writes and decides nothing.
 */
import { sql } from "kysely";
import { type Audit, standsForItsName } from "./audit.ts";
import type { AuditEffect } from "./audit-schema.ts";
import type { AuditContradiction, AuditResolution, AuditSource } from "./audit-schema-resolution.ts";

/** By what a list names its effects. `effect`: by id, the last eight digits of it, name, or `task:name`. */
export const MATCHES = ["key", "reference", "effect"] as const;
export type Match = (typeof MATCHES)[number];

/** An effect as a list may mean it. */
export type Matched = Pick<
  AuditEffect,
  "effect_id" | "name" | "task_name" | "key" | "reference" | "operation" | "state"
>;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const SHORT_ID = /^[0-9a-f]{8}$/i;

/** The effects that these words may mean, in one look for all of them. */
export async function findMatches(audit: Audit, by: Match, words: readonly string[]): Promise<readonly Matched[]> {
  const effects = audit
    .selectFrom("audit.effects")
    .select(["effect_id", "name", "task_name", "key", "reference", "operation", "state"]);
  if (by !== "effect") return effects.where(by, "in", words).execute();
  const ids = words.filter((word) => UUID.test(word));
  const shortIds = words.filter((word) => SHORT_ID.test(word)).map((word) => word.toLowerCase());
  const names = words.filter((word) => !UUID.test(word));
  return effects
    .where((eb) =>
      eb.or([
        ...(ids.length > 0 ? [eb("effect_id", "in", ids)] : []),
        ...(shortIds.length > 0 ? [eb(sql<string>`right(effect_id::text, 8)`, "in", shortIds)] : []),
        ...(names.length > 0
          ? [
              eb.and([eb("name", "in", names), standsForItsName]),
              eb.and([eb(sql<string>`task_name || ':' || name`, "in", names), standsForItsName]),
            ]
          : []),
      ]),
    )
    .execute();
}

/** Whether an effect goes by this word, as `findMatches` looks for it. */
export function isMeant(effect: Matched, by: Match, word: string): boolean {
  if (by !== "effect") return effect[by] === word;
  const id = word.toLowerCase();
  return (
    effect.effect_id === id ||
    effect.effect_id.slice(-8) === id ||
    (effect.name !== null && (effect.name === word || `${effect.task_name}:${effect.name}` === word))
  );
}

/** What stands about an effect: its outcome's word, or that of its newest resolution; null for an accepted risk or none. */
export interface Stands {
  readonly says: string | null;
  readonly risk_accepted: boolean;
}

export async function readStands(audit: Audit, effectId: string): Promise<Stands> {
  const { state } = await audit
    .selectFrom("audit.effects")
    .select("state")
    .where("effect_id", "=", effectId)
    .executeTakeFirstOrThrow();
  if (state !== "uncertain") return { says: state, risk_accepted: false };
  const resolutions = await readResolutions(audit, effectId);
  return {
    says: resolutions.at(-1)?.says ?? null,
    risk_accepted: resolutions.some(({ kind }) => kind === "risk_accepted"),
  };
}

/** The resolutions of an effect, in order: at most two, of which the second is of evidence after an accepted risk. */
export async function readResolutions(audit: Audit, effectId: string): Promise<readonly AuditResolution[]> {
  return audit.selectFrom("audit.resolutions").selectAll().where("effect_id", "=", effectId).orderBy("at").execute();
}

/** What disagrees with what was recorded about an effect, in order, one row a unit. */
export async function readContradictions(
  audit: Audit,
  effectId: string,
  limit: number,
): Promise<readonly AuditContradiction[]> {
  return audit
    .selectFrom("audit.contradictions")
    .selectAll()
    .where("effect_id", "=", effectId)
    .orderBy("at")
    .orderBy("unit")
    .limit(limit)
    .execute();
}

/** Who may submit evidence, live ones first. */
export async function listSources(audit: Audit, limit: number): Promise<readonly AuditSource[]> {
  return audit
    .selectFrom("audit.sources")
    .selectAll()
    .orderBy(sql`revoked_at is not null`)
    .orderBy("source")
    .limit(limit)
    .execute();
}
