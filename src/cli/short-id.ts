/** Ids for reading: the last eight digits, because the first eight of a time-ordered id are all the same. */

export function shortId(id: string): string {
  return id.slice(-8);
}

/** The effect's name where it has one, else its short id: what a person would call it. */
export function calledBy(effect: { readonly effect_id: string; readonly name: string | null }): string {
  return effect.name ?? shortId(effect.effect_id);
}
