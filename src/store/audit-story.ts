/**
 * Everything on record about one effect, for the command line: its costs, what was said about it, and its timeline. Kysely
 * over the audit views, every list bounded. It never writes and decides nothing.
 */
import type { Audit } from "./audit.ts";
import { readObligation } from "./audit-obligations.ts";
import { readContradictions, readResolutions } from "./audit-resolution.ts";
import type {
  AuditCost,
  AuditEffect,
  AuditEvidence,
  AuditInspection,
  AuditObligation,
  AuditTimeline,
} from "./audit-schema.ts";
import type { AuditContradiction, AuditResolution } from "./audit-schema-resolution.ts";

/** What is on record about one effect, beside its own row. */
export interface EffectStory {
  readonly costs: readonly AuditCost[];
  readonly evidence: readonly AuditEvidence[];
  readonly inspections: readonly AuditInspection[];
  readonly resolutions: readonly AuditResolution[];
  readonly contradictions: readonly AuditContradiction[];
  readonly timeline: readonly AuditTimeline[];
  /** The cleanup that it owes or owed. */
  readonly obligation: AuditObligation | null;
  /** What to do about why it waits or was declined. */
  readonly hint: string | null;
}

/** Rows of one list in a story. An effect with more has been asked about for years; the newest are shown. */
const STORY_ROWS_MAX = 1_000;

/** What an effect holds or has cost, by unit. */
export async function readCosts(audit: Audit, effectId: string): Promise<readonly AuditCost[]> {
  return audit.selectFrom("audit.costs").selectAll().where("effect_id", "=", effectId).orderBy("unit").execute();
}

export async function readStory(audit: Audit, effect: AuditEffect): Promise<EffectStory> {
  const { effect_id, denial_code } = effect;
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
    .selectFrom("audit.denial_codes")
    .select("hint")
    .where("code", "=", denial_code)
    .executeTakeFirst();
  return {
    costs: await readCosts(audit, effect_id),
    evidence: evidence.toReversed(),
    inspections: inspections.toReversed(),
    resolutions: await readResolutions(audit, effect_id),
    contradictions: await readContradictions(audit, effect_id, STORY_ROWS_MAX),
    timeline: timeline.toReversed(),
    obligation: await readObligation(audit, effect_id),
    hint: denial?.hint ?? null,
  };
}
