/** The one screen: a ledger's facts as lines. What is counted is the store's, what it exits with is the command's. */
import type { AuditWorker } from "../store/audit-ledger.ts";
import type { OwedCleanups } from "../store/audit-obligations.ts";
import type { AuditPause } from "../store/audit-schema.ts";
import type { EndedCounts, LiveCount } from "../store/audit-status.ts";
import type { UnresolvedSum } from "../store/audit-unresolved.ts";
import { formatDuration } from "./duration.ts";
import { formatAge } from "./moment.ts";
import { amountWords } from "./standing-words.ts";
import { tableLines } from "./table.ts";

/** What one operation is at. */
export interface OperationStatus {
  readonly operation: string;
  readonly waiting: bigint;
  readonly oldest_waiting: Date | null;
  /** Effects by what they wait for: a word of `waiting_for`, or `queue`. */
  readonly waiting_for: Readonly<Record<string, bigint>>;
  /** False where effects wait and no live worker has the operation. */
  readonly has_worker: boolean;
  readonly pause: AuditPause | null;
  readonly in_flight: bigint;
  readonly unresolved: bigint;
  readonly oldest_unresolved: Date | null;
  /** Reserved for what is unresolved, by unit. */
  readonly held: Readonly<Record<string, bigint>>;
}

export interface Counted {
  readonly live: readonly LiveCount[];
  readonly held: readonly UnresolvedSum[];
  readonly pauses: readonly AuditPause[];
  readonly workers: readonly AuditWorker[];
}

/** Each operation of which something waits, is in flight or is in doubt, by name. */
export function operationStatuses({ live, held, pauses, workers }: Counted): readonly OperationStatus[] {
  const names = [...new Set(live.map(({ operation }) => operation))].sort();
  return names.map((operation) => {
    const own = live.filter((each) => each.operation === operation);
    const waits = own.filter(({ at }) => at !== "in flight" && at !== "unresolved");
    const doubt = own.find(({ at }) => at === "unresolved");
    const oldest = waits.map((each) => each.oldest).sort((a, b) => a.getTime() - b.getTime())[0];
    return {
      operation,
      waiting: waits.reduce((sum, { effects }) => sum + effects, 0n),
      oldest_waiting: oldest ?? null,
      waiting_for: Object.fromEntries(waits.map(({ at, effects }) => [at, effects])),
      has_worker: waits.length === 0 || workers.some((worker) => worker.operations.includes(operation)),
      pause: pauses.find(({ scope, target }) => scope === "all" || target === operation) ?? null,
      in_flight: own.find(({ at }) => at === "in flight")?.effects ?? 0n,
      unresolved: doubt?.effects ?? 0n,
      oldest_unresolved: doubt?.oldest ?? null,
      held: held.find(({ group }) => group === operation)?.held ?? {},
    };
  });
}

export function operationLines(operations: readonly OperationStatus[], now: Date): readonly string[] {
  const age = (since: Date | null) => (since === null ? "" : formatAge(since, now));
  return tableLines(
    [
      { title: "operation", cell: ({ operation }) => operation },
      { title: "waiting", align: "right", always: true, cell: ({ waiting }) => String(waiting) },
      { title: "oldest", align: "right", always: true, cell: ({ oldest_waiting }) => age(oldest_waiting) },
      { title: "waiting for", always: true, cell: waitingWords },
      { title: "in flight", align: "right", always: true, cell: ({ in_flight }) => String(in_flight) },
      { title: "unresolved", align: "right", always: true, cell: ({ unresolved }) => String(unresolved) },
      { title: "oldest", align: "right", always: true, cell: ({ oldest_unresolved }) => age(oldest_unresolved) },
      { title: "held in doubt", always: true, cell: ({ held }) => amountWords(held) },
    ],
    operations,
  );
}

/** `paused by ana, INC-91`; several reasons each with their number. What waits for its turn alone needs no word. */
function waitingWords({ waiting_for, has_worker, pause }: OperationStatus): string {
  const reasons = Object.entries(waiting_for).map(([word, effects]) => {
    const by = word === "paused" && pause ? `paused by ${pause.paused_by}, ${pause.reason}` : word;
    return [word === "queue" ? "its turn" : by, effects] as const;
  });
  const [first, ...more] = reasons;
  const said =
    more.length > 0 ? reasons.map(([words, effects]) => `${effects} ${words}`).join(", ") : (first?.[0] ?? "");
  if (!has_worker) return said === "its turn" || said === "" ? "no worker has it" : `no worker has it; ${said}`;
  return said === "its turn" ? "" : said;
}

/** A commit's name is recognised by its first digits. */
const RELEASE_DIGITS = 12;

/** `workers 3, release 4f2c1a, heartbeat 2 s`: the oldest heartbeat of those alive. */
export function workerWords(live: readonly AuditWorker[], silent: readonly AuditWorker[]): string {
  const dead = silent.length > 0 ? `, ${silent.length} silent without having stopped` : "";
  const [any] = live;
  if (!any) return `no worker is alive${dead}`;
  const releases = [...new Set(live.map(({ release }) => releaseWords(release)))];
  const heartbeat = formatDuration(Math.max(0, ...live.map(({ silent_ms }) => silent_ms)));
  return `workers ${live.length}, release${releases.length > 1 ? "s" : ""} ${releases.join(" and ")}, heartbeat ${heartbeat}${dead}`;
}

function releaseWords(release: string): string {
  return /^[0-9a-f]{40}$/.test(release) ? release.slice(0, RELEASE_DIGITS) : release;
}

/** `accepted 1204  failed 7  no_effect 2  uncertain 1  declined 12 (expired 9, denied 3)` */
export function endedWords({ outcomes, declined }: EndedCounts): string {
  const count = (outcome: string) => outcomes.find((each) => each.outcome === outcome)?.effects ?? 0n;
  const reasons = declined.map(({ reason, effects }) => `${reason} ${effects}`).join(", ");
  const all = declined.reduce((sum, { effects }) => sum + effects, 0n);
  return [
    ...["accepted", "failed", "no_effect", "uncertain"].map((outcome) => `${outcome} ${count(outcome)}`),
    `declined ${all}${reasons === "" ? "" : ` (${reasons})`}`,
  ].join("  ");
}

/** `3 owed, the oldest for 2 h; 1 that nobody tries any more` */
export function owedWords({ owed, given_up, oldest }: OwedCleanups, now: Date): string {
  const age = oldest === null ? "" : `, the oldest for ${formatAge(oldest, now)}`;
  return `${owed} owed${age}${given_up > 0n ? `; ${given_up} that nobody tries any more: effects.retry_cleanup` : ""}`;
}
