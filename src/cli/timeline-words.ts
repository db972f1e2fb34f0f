/** What happened to an effect, in words: one line for each entry of audit.timeline. A detail that has no words is shown as it is. */
import type { AuditTimeline } from "../store/audit-schema.ts";
import { formatDuration } from "./duration.ts";
import { formatMoment } from "./moment.ts";
import { shortId } from "./short-id.ts";
import { amountWords } from "./standing-words.ts";

type Detail = Readonly<Record<string, unknown>>;

/** Hashes are recognised by their first digits; `--json` has them whole. */
const HASH_DIGITS = 12;

/** Says one detail; empty for what another one's words say already or nobody asks for. */
const WORDS: Readonly<Record<string, (value: never, detail: Detail, at: Date) => string>> = {
  operation: (value: string, { version }) => `${value} ${String(version)}`,
  version: () => "",
  task: () => "",
  actor: (value: string) => `as ${value}`,
  given_digest: () => "",
  revision: (value: number) => `binding ${value}`,
  issued_under: (value: string) => `under ${value}`,
  cost: (value: Record<string, string>) => (Object.keys(value).length > 0 ? `reserves ${amountWords(value)}` : ""),
  dispatch_timeout_ms: (value: number) => `may take ${formatDuration(value)}`,
  declined_reason: (value: string) => value,
  code: (value: string) => value,
  waiting_for: (value: string) => `waits for ${value}`,
  source: (value: string) => (value === "operator" ? "" : `from ${value}`), // who it was stands beside it
  resolution: (value: string) =>
    value === "reached" ? "what was wanted is there, by an unknown hand" : "its risk accepted",
  reason: (value: string) => value,
  since: (value: number) => `its window passed at ${new Date(value).toISOString()}`,
  recorded: (value: string) => `recorded ${value}`,
  via: (value: string) => (value === "resolve" ? "" : `via ${value}`), // its event says resolved
  says: (value: string, { resolution }) => (resolution === undefined ? `says ${value}` : ""),
  reference: (value: string) => `reference ${value}`,
  counted: (value: string, { needed }) => `${value} of ${String(needed)} approvals`,
  needed: (value: string, { counted }) => (counted === undefined ? `${value} needed` : ""),
  approval: (value: string) => `approval ${shortId(value)}`,
  approver: (value: string) => `by ${value}`,
  key_id: (value: string) => `key ${shortId(value)}`,
  follows: (value: string) => `follows ${shortId(value)}`,
  follower: (value: string) => `by ${shortId(value)}`,
  followed: (value: number) => `by itself, number ${value}`,
  follow_max: (value: number) => `at most ${value}`,
  again_after_ms: (value: number) => `again after ${formatDuration(value)}`,
  cleanup: (value: string) => `a cleanup is ${value}`,
  tries: (value: number) => (value === 1 ? "at the first try" : `after ${value} tries`),
  requested_by: (value: string) => `asked for by ${value}`,
  reconciliation: (value: string) => `reconciliation ${shortId(value)}`,
  scope: (value: string, { scope_name }) => `of ${SCOPES[value] ?? `${value} ${String(scope_name)}`}`,
  scope_name: () => "",
  deadline: (value: string, _detail, at) => `until ${formatMoment(new Date(value), at)}`,
  conclusive_at: (value: string, _detail, at) => `absence is conclusive from ${formatMoment(new Date(value), at)} on`,
  took_ms: (value: number) => `took ${formatDuration(value)}`,
  digest: (value: string) => `digest ${value.slice(0, HASH_DIGITS)}`,
  evidence_digest: (value: string) => `evidence ${value.slice(0, HASH_DIGITS)}`,
  implementation: (value: string) => `implementation ${value.slice(0, HASH_DIGITS)}`,
  attempt: (value: string) => `attempt ${shortId(value)}`,
  attempt_digest: () => "",
};

const SCOPES: Readonly<Record<string, string>> = { effect: "this effect", all: "everything" };

/** In which order details are said; the others follow. */
const ORDER = Object.keys(WORDS);

export function timelineWords({ what, detail, at }: AuditTimeline): string {
  return Object.entries(detail)
    .toSorted(([a], [b]) => rank(a) - rank(b))
    .filter(([field, value]) => !(field === "says" && value === what)) // an outcome's event says it in its own name
    .map(([field, value]) => {
      const say = WORDS[field] as ((value: unknown, detail: Detail, at: Date) => string) | undefined;
      return say ? say(value, detail, at) : `${field} ${typeof value === "string" ? value : JSON.stringify(value)}`;
    })
    .filter((words) => words !== "")
    .join(", ");
}

function rank(field: string): number {
  const place = ORDER.indexOf(field);
  return place === -1 ? ORDER.length : place;
}
