/** What is being signed, for the eyes of whoever signs: whole, and read from the bytes that the digest is of. */
import type { SeenStatement } from "../core/seen-statement.ts";
import { cleanText } from "../core/text.ts";
import type { AwaitingApproval } from "../store/audit-schema-policy.ts";
import { formatMoment } from "./moment.ts";
import { shortId } from "./short-id.ts";
import { amountWords } from "./standing-words.ts";

/** Far above what a preview or a target has; what is longer says how long it is. */
const SHOWN_MAX = 10_000;

/** The lines; not a table, whose cells are cut. */
export function signedLines(
  { statement, binding }: SeenStatement,
  { name, policy, approvals_needed, approvals_submitted }: AwaitingApproval,
  now: Date,
): readonly string[] {
  const facts: readonly (readonly [what: string, is: string])[] = [
    ["preview", binding.preview],
    ["target", binding.target],
    ["account", binding.account ?? "none named"],
    ["maximum cost", amountWords(statement.maximumCost) || "nothing"],
    ["requested by", binding.actor],
    ["policy", `${policy}, ${approvals_submitted} of ${approvals_needed} approvals submitted`],
    ["expires", formatMoment(new Date(statement.expiresAtMs), now)],
    ["digest", `${statement.digest}, recomputed from what is bound`],
  ];
  const called = name === null ? shortId(statement.effect) : `${name} (${shortId(statement.effect)})`;
  return [
    `approval of ${statement.operation} ${statement.version}  ${called}`,
    ...facts.map(([what, is]) => `  ${what.padEnd(12)}  ${is}`),
  ].map((line) => cleanText(line, SHOWN_MAX));
}
