/**
 * The one effect that a person means: by id, short id, name, `task:name`, key, or the recipient's reference. More than one
 * is never chosen from: the candidates are shown.
 */
import type pg from "pg";
import { LedgerError } from "../core/error.ts";
import type { ObservedRow } from "../observe/standing.ts";
import { type Audit, type EffectNaming, findEffects } from "../store/audit.ts";
import type { AuditEffect } from "../store/audit-schema.ts";
import { findNamed, observeEffect } from "../store/ledger.ts";
import { AmbiguousError } from "./failure.ts";

/** Candidates that are shown, before "and more". */
const CANDIDATES_MAX = 10;

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const KEY = /^[0-9a-f]{32}$/;

/** For --help of every command that takes one. */
export const EFFECT_HELP = "id, last eight digits of it, name, task:name, run/name, key, or the recipient's reference";

/** @throws LedgerError `effect_unknown`, or `effect_ambiguous` with the candidates. */
export async function findEffect(audit: Audit, given: string): Promise<AuditEffect> {
  const found = await findEffects(audit, namingOf(given), CANDIDATES_MAX + 1);
  const [effect, another] = found;
  if (!effect) {
    throw new LedgerError("effect_unknown", `no effect goes by ${JSON.stringify(given)}`, {
      hint: `give its ${EFFECT_HELP}; \`pg-effects list\` shows the newest`,
    });
  }
  if (!another) return effect;
  const shown = found.slice(0, CANDIDATES_MAX);
  const many = found.length > CANDIDATES_MAX ? `more than ${CANDIDATES_MAX}` : String(found.length);
  throw new AmbiguousError(
    `${many} effects go by ${JSON.stringify(given)}`,
    `give one of their ids: ${shown.map(({ effect_id, task_name, operation }) => `${effect_id} (${operation} in ${task_name})`).join(", ")}`,
    shown.map(({ effect_id, name, operation, task_name, state }) => ({ effect_id, name, operation, task_name, state })),
  );
}

/** What a person may mean by a text. */
export function namingOf(given: string, words: "words" | "words or target" = "words"): EffectNaming {
  const value = given.toLowerCase();
  if (ID.test(value)) return { by: "id", value };
  if (KEY.test(value)) return { by: "key", value };
  // A short id in capitals is one too; a name is taken as it is written.
  return { by: words, value: /^[0-9a-f]{8}$/i.test(given) ? value : given };
}

/**
 * The same for a login that does not read the schema audit: by id, by name in the task `default`, or by `task:name`, of what
 * effects.observe shows it. @throws LedgerError `effect_unknown`
 */
export async function findOwnEffect(client: pg.ClientBase, given: string): Promise<ObservedRow> {
  if (ID.test(given.toLowerCase())) {
    const row = await observeEffect<ObservedRow>(client, given.toLowerCase());
    if (row) return row;
  }
  const colons = [...given.matchAll(/:/g)].map(({ index }) => index);
  const meant = [["default", given], ...colons.map((at) => [given.slice(0, at), given.slice(at + 1)])] as const;
  for (const [task = "", name = ""] of meant) {
    const row = await findNamed<ObservedRow>(client, name, task);
    if (row) return row;
  }
  throw new LedgerError("effect_unknown", `no effect of this login's goes by ${JSON.stringify(given)}`, {
    hint: "give its id, its name in the task default, or task:name",
  });
}
