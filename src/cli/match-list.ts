/** Which effects the lines of a list mean. A line that means none, several, or one that another line means is not acted on. */
import type { Audit } from "../store/audit.ts";
import { findMatches, isMeant, type Match, type Matched } from "../store/audit-resolution.ts";
import type { Listed } from "./effect-list.ts";

/** Lines that are looked for in one statement. */
const LOOKED_FOR_AT_ONCE = 1_000;

export interface Target {
  readonly listed: Listed;
  readonly effect: Matched | null;
  /** Why nothing is done about this line. */
  readonly problem: Problem | null;
}

export interface Problem {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/** Each line with its effect or its problem, in order. */
export async function matchList(audit: Audit, by: Match, listed: readonly Listed[]): Promise<readonly Target[]> {
  const targets: Target[] = [];
  const lineOf = new Map<string, number>();
  for (let from = 0; from < listed.length; from += LOOKED_FOR_AT_ONCE) {
    const lines = listed.slice(from, from + LOOKED_FOR_AT_ONCE);
    const found = await findMatches(
      audit,
      by,
      lines.map(({ given }) => given),
    );
    const wordsOf = indexed(by, found);
    for (const line of lines) {
      const meant = wordsOf(line.given);
      const target = targetOf(line, by, meant, lineOf);
      if (target.effect) lineOf.set(target.effect.effect_id, line.line);
      targets.push(target);
    }
  }
  return targets;
}

function targetOf(listed: Listed, by: Match, meant: readonly Matched[], lineOf: ReadonlyMap<string, number>): Target {
  const [effect, another] = meant;
  const problem = (code: string, message: string, hint: string) => ({
    listed,
    effect: null,
    problem: { code, message, hint },
  });
  if (!effect) return problem("effect_unknown", `no effect goes by this ${by}`, "correct the line, or take it out");
  if (another) {
    const ids = meant.map(({ effect_id }) => effect_id).join(", ");
    return problem("effect_ambiguous", `${meant.length} effects go by this ${by}: ${ids}`, "name one by its key or id");
  }
  const earlier = lineOf.get(effect.effect_id);
  if (earlier === undefined) return { listed, effect, problem: null };
  return problem("effect_repeated", `line ${earlier} means the same effect`, "say it once");
}

/** So that a thousand lines do not each look at a thousand effects. */
function indexed(by: Match, found: readonly Matched[]): (word: string) => readonly Matched[] {
  const byWord = new Map<string, Matched[]>();
  const add = (word: string | null, effect: Matched) => {
    if (word !== null) byWord.set(word, [...(byWord.get(word) ?? []), effect]);
  };
  for (const effect of found) {
    if (by !== "effect") add(effect[by], effect);
    else {
      const { effect_id, name, task_name } = effect;
      for (const word of new Set([effect_id, effect_id.slice(-8), name, name && `${task_name}:${name}`]))
        add(word, effect);
    }
  }
  return (word) => {
    const meant = byWord.get(word) ?? (by === "effect" ? byWord.get(word.toLowerCase()) : undefined) ?? [];
    return meant.filter((effect) => isMeant(effect, by, word));
  };
}
