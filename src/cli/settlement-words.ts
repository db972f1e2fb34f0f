/** What a resolution does to the budget, before it is made: in amounts as they are held. */
import type { Audit } from "../store/audit.ts";
import { readCosts } from "../store/audit-story.ts";
import type { Says } from "./effect-list.ts";
import { amountWords } from "./standing-words.ts";
import type { Cost } from "./unit-digits.ts";

/** `spends the maximum: 4000 usd_cents`. `says` is null for an accepted risk. */
export async function settlementWords(
  audit: Audit,
  effectId: string,
  says: Says | null,
  measured: Cost | null,
): Promise<string> {
  const costs = (await readCosts(audit, effectId)).filter(({ standing }) => standing === "reserved");
  const held = Object.fromEntries(costs.map(({ unit, reserved }) => [unit, reserved]));
  if (says === "no_effect") return costs.length > 0 ? `releases ${amountWords(held)}` : "it held no budget";
  const unmeasured = Object.fromEntries(Object.entries(held).filter(([unit]) => !Object.hasOwn(measured ?? {}, unit)));
  const parts = [
    measured && `spends ${amountWords(measured)}, as measured`,
    Object.keys(unmeasured).length > 0 && `spends the maximum: ${amountWords(unmeasured)}`,
  ];
  return parts.filter(Boolean).join("; ") || "it held no budget";
}
