/** A reconciliation in words: its scope, how far it got, each inspection with what the recipient said. */
import type { InspectionLine, NotReached } from "../store/audit-reconciliations.ts";
import type { AuditReconciliation } from "../store/audit-schema.ts";
import { formatDuration } from "./duration.ts";
import { bodyWords } from "./evidence-words.ts";
import { formatMoment } from "./moment.ts";
import { calledBy, shortId } from "./short-id.ts";
import { tableLines } from "./table.ts";

type Fact = readonly [what: string, is: string];

export const FACTS = [
  { title: "", cell: ([what]: Fact) => what },
  { title: "", cell: ([, is]: Fact) => is },
];

export function factsOf(asked: AuditReconciliation, now: Date): readonly Fact[] {
  return [
    ["allows", asked.allows],
    ["asked at", formatMoment(asked.requested_at, now)],
    ["deadline", `${formatMoment(asked.deadline, now)}, which nobody extends`],
    ["standing", reachedWords(asked, now)],
    ["in scope", String(asked.in_scope)],
    ["asked about", `${asked.inspected}, recorded ${asked.recorded}, could not ask ${asked.could_not_ask}`],
    ["not reached", String(asked.not_reached)],
    ...(asked.skipped > 0n ? [["left out", skippedWords(asked)] as const] : []),
  ];
}

/** What a request left out: the code that could ask is not a worker's. */
export function skippedWords({ skipped }: Pick<AuditReconciliation, "skipped">): string {
  return `${skipped} inline ${skipped === 1n ? "effect" : "effects"}, which their hosts ask about, or somebody resolves`;
}

export function notReachedLines(effects: readonly NotReached[]): readonly string[] {
  return tableLines(
    [
      { title: "not reached", cell: calledBy },
      { title: "operation", cell: ({ operation }) => operation },
      { title: "state", cell: ({ state, unresolved }) => (unresolved ? `${state}, unresolved` : state) },
    ],
    effects,
  );
}

export function inspectionLines(inspections: readonly InspectionLine[], now: Date): readonly string[] {
  return tableLines(
    [
      { title: "effect", cell: calledBy },
      { title: "operation", cell: ({ operation }) => operation },
      { title: "begun", cell: ({ begun_at }) => formatMoment(begun_at, now) },
      { title: "kind", cell: ({ kind }) => kind },
      { title: "found", cell: ({ report }) => report ?? "no answer" },
      { title: "recorded", cell: ({ recorded, report }) => recorded ?? (report === null ? "" : "nothing") },
      {
        title: "took",
        align: "right",
        cell: ({ took_ms }) => (took_ms === null ? "" : formatDuration(Number(took_ms))),
      },
      {
        title: "absence is conclusive from",
        cell: ({ conclusive_at }) => (conclusive_at === null ? "" : formatMoment(conclusive_at, now)),
      },
      { title: "reason", cell: ({ reason }) => reason ?? "" },
      { title: "the recipient said", cell: ({ evidence }) => (evidence === null ? "" : bodyWords({ body: evidence })) },
    ],
    inspections,
  );
}

/** `operation charge_card`, `everything` */
export function scopeWords({ scope, scope_name }: AuditReconciliation): string {
  return scope_name === null ? "everything" : `${scope} ${scope === "effect" ? shortId(scope_name) : scope_name}`;
}

/** How far it got, and why it went no further. */
export function reachedWords({ started_at, ended_at, ended, deadline }: AuditReconciliation, now: Date): string {
  if (ended === "finished") {
    return ended_at === null ? "finished: nothing was in doubt" : `finished ${formatMoment(ended_at, now)}`;
  }
  if (ended === null) {
    return `${started_at === null ? "waits for a worker" : "is asking"} until ${formatMoment(deadline, now)}`;
  }
  if (started_at === null) return `expired ${formatMoment(deadline, now)}: no worker took it`;
  if (ended_at !== null && ended_at < deadline) return `stopped ${formatMoment(ended_at, now)}, with its worker`;
  return `expired ${formatMoment(deadline, now)}`;
}
