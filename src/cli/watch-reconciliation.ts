/**
 * Watches one reconciliation from its request to its end: who will do it, how far it is, what was found, and the exit code
 * that this makes. It reads only; the job in a worker goes on whether anybody watches or not.
 */
import type { Audit } from "../store/audit.ts";
import { readClock } from "../store/audit.ts";
import {
  countFound,
  countRecorded,
  type FoundCount,
  type Inspected,
  readInspections,
  readLeftOpen,
  readReconciliation,
  scopeOperations,
} from "../store/audit-reconciliation.ts";
import type { AuditReconciliation } from "../store/audit-schema.ts";
import { formatDuration } from "./duration.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import { withoutWorker } from "./live-workers.ts";
import { formatAge, formatMoment } from "./moment.ts";
import type { Output } from "./output.ts";
import { skippedWords } from "./reconciliation-words.ts";
import { calledBy, shortId } from "./short-id.ts";
import { type Column, tableLines } from "./table.ts";
import { lookUntil } from "./watch.ts";

/** What of the scope makes exit code 3. */
export const FAIL_ON = ["new", "any", "none"] as const;
export type FailOn = (typeof FAIL_ON)[number];

/** What a run that reached its deadline still writes arrives within this, in milliseconds. */
const LAST_WRITES_MS = 2_000;

/** Reports become visible in another order than they were made in; so far back they are read again, in milliseconds. */
const OVERLAP_MS = 60_000;

/** Open effects that are shown one by one. */
const LEFT_OPEN_SHOWN = 20;

/** Watches until the end, or until the signal; returns the exit code. */
export async function watchReconciliation(
  audit: Audit,
  output: Output,
  id: string,
  { failOn, signal }: { readonly failOn: FailOn; readonly signal: AbortSignal },
): Promise<ExitCode> {
  const asked = await readReconciliation(audit, id);
  output.event({ event: "requested", ...asked });
  output.line(`reconciliation ${id}  ${asked.in_scope} in scope, ${asked.allows}`);
  if (asked.skipped > 0n) output.note(`left out: ${skippedWords(asked)}`);
  const alone = await withoutWorker(audit, await scopeOperations(audit, id));
  if (alone.length > 0) {
    output.event({ event: "no_worker", operations: alone });
    output.note(`no live worker has ${alone.join(", ")}: it will not run without one; start one: pg-effects worker`);
  }
  try {
    const ended = await watchUntilEnd(audit, output, asked, signal);
    return ended ? await conclusion(audit, output, ended, failOn) : unwatched(output, id);
  } finally {
    output.endProgress();
  }
}

async function watchUntilEnd(
  audit: Audit,
  output: Output,
  asked: AuditReconciliation,
  signal: AbortSignal,
): Promise<AuditReconciliation | null> {
  const id = asked.reconciliation_id;
  const tell = inspectionTeller(audit, output, id);
  const look = async (): Promise<AuditReconciliation | null> => {
    const now = await readReconciliation(audit, id);
    await tell();
    const left = formatDuration(Math.max(0, asked.deadline.getTime() - (await readClock(audit)).getTime()));
    const recorded = (await countRecorded(audit, id)).map(({ recorded, effects }) => `${recorded} ${effects}`);
    output.progress(
      `${shortId(id)}  ${now.inspected} of ${now.in_scope} asked: ${recorded.join(", ") || "nothing recorded"};` +
        ` ${now.could_not_ask} could not be asked, ${left} left`,
    );
    return now.ended === null ? null : now;
  };
  const timeoutMs = asked.deadline.getTime() - asked.requested_at.getTime() + LAST_WRITES_MS;
  const ended = await lookUntil(look, { timeoutMs, signal });
  if (ended?.ended !== "expired" || ended.started_at === null || ended.ended_at !== null) return ended;
  // The deadline has passed while it ran: what was found in time is about to be written.
  const settled = async () => {
    const now = await look();
    return now && now.ended_at !== null ? now : null;
  };
  return (await lookUntil(settled, { timeoutMs: LAST_WRITES_MS, signal })) ?? readReconciliation(audit, id);
}

/** Prints each inspection once, with --json. */
function inspectionTeller(audit: Audit, output: Output, id: string): () => Promise<void> {
  const told = new Set<string>();
  let newest = 0;
  return async () => {
    if (!output.json) return;
    for (const inspection of await readInspections(audit, id, new Date(newest - OVERLAP_MS))) {
      const which = `${inspection.effect_id} ${inspection.kind}`;
      if (told.has(which)) continue;
      told.add(which);
      newest = Math.max(newest, inspection.at?.getTime() ?? 0);
      output.event({ event: "inspection", ...(inspection satisfies Inspected) });
    }
  };
}

async function conclusion(audit: Audit, output: Output, ended: AuditReconciliation, failOn: FailOn): Promise<ExitCode> {
  const found = await countFound(audit, ended.reconciliation_id);
  const left = await readLeftOpen(audit, ended.reconciliation_id, LEFT_OPEN_SHOWN);
  const becameUncertain = found
    .filter(({ recorded }) => recorded === "uncertain")
    .reduce((sum, { effects }) => sum + effects, 0n);
  const fails = { new: becameUncertain > 0n, any: left.count > 0n, none: false }[failOn];
  const exit = left.notAsked > 0n ? EXIT.deadline : fails ? EXIT.unresolved : EXIT.done;
  output.event({
    event: "ended",
    ...ended,
    found,
    became_uncertain: becameUncertain,
    left_open: left.count,
    not_asked: left.notAsked,
    exit,
  });
  output.endProgress();
  output.line(
    ended.in_scope === 0n
      ? "nothing in scope is in doubt"
      : `${ended.ended}  ${ended.inspected} of ${ended.in_scope} asked`,
  );
  const now = await readClock(audit);
  for (const line of tableLines(foundColumns(now), found)) output.line(line);
  if (left.count === 0n) return exit;
  output.line();
  const lines = tableLines(
    [
      { title: "left open", cell: calledBy },
      { title: "operation", cell: ({ operation }) => operation },
      { title: "state", cell: ({ state }) => state },
      { title: "age", align: "right", cell: ({ since }) => (since ? formatAge(since, now) : "") },
      { title: "asked", cell: ({ inspected }) => (inspected ? "yes" : "not reached") },
    ],
    left.effects,
  );
  for (const line of lines) output.line(line);
  if (left.count > BigInt(left.effects.length)) output.line(`the oldest ${left.effects.length} of ${left.count}`);
  const rest = left.notAsked > 0n ? `, not reached: ${left.notAsked}` : "";
  output.line(`exit ${exit}      ${left.count} in scope ${left.count === 1n ? "is" : "are"} unresolved${rest}`);
  return exit;
}

function foundColumns(now: Date): readonly Column<FoundCount>[] {
  return [
    { title: "operation", cell: ({ operation }) => operation },
    { title: "found", cell: ({ report }) => report },
    { title: "recorded", cell: ({ recorded }) => recorded ?? "nothing" },
    { title: "effects", align: "right", cell: ({ effects }) => String(effects) },
    {
      title: "absence is conclusive from",
      cell: ({ conclusive_at: from }) => (from === null ? "" : `${formatMoment(from, now)}: ask again then`),
    },
  ];
}

function unwatched(output: Output, id: string): ExitCode {
  output.event({ event: "unwatched", reconciliation_id: id });
  output.note(
    `no longer watched; reconciliation ${id} goes on until its deadline: pg-effects reconciliation show ${shortId(id)}`,
  );
  return EXIT.interrupted;
}
