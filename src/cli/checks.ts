/**
 * What `doctor` looks at, one function a line of its report: facts in, a verdict with what to do out. `no` is broken, `warn`
 * works and is worse than it could be.
 */

import {
  type AppliedMigration,
  type AuditWorker,
  type LedgerFacts,
  type PredicateLocks,
  SILENT_MS,
} from "../store/audit-ledger.ts";
import type { AuditViolation } from "../store/audit-schema.ts";
import type { Migration } from "../store/migrate.ts";
import { closureOf } from "./closure.ts";
import { formatDuration } from "./duration.ts";
import { isLive } from "./live-workers.ts";

export interface Check {
  readonly check: string;
  readonly verdict: "ok" | "warn" | "no";
  readonly says: string;
  /** What to do; nothing where it is ok. */
  readonly advice?: string;
}

/** Which ledger it is, and whether its database is the one that it was written in. */
export function checkLedger(facts: LedgerFacts): Check {
  const which = `${facts.name} ${facts.ledger_id}`;
  const closure = closureOf({ ...facts, durability_gap: null });
  if (closure === null) return { check: "ledger", verdict: "ok", says: `${which}, in the database it was written in` };
  return { check: "ledger", verdict: "no", says: `${which} is closed: ${closure.message}`, advice: closure.hint };
}

export function checkDurability(facts: LedgerFacts): Check {
  const closure = closureOf({ ...facts, standing: "ok" });
  if (closure === null) return { check: "durability", verdict: "ok", says: "fsync and full_page_writes are on" };
  return { check: "durability", verdict: "no", says: closure.message, advice: closure.hint };
}

export function checkMigrations(applied: readonly AppliedMigration[], known: readonly Migration[]): Check {
  const check = "migrations";
  if (applied.length > known.length) {
    return { check, verdict: "no", says: "the database is newer than this version", advice: "run the newer version" };
  }
  const changed = applied.find(({ digest }, place) => known[place]?.digest !== digest);
  if (changed) {
    return {
      check,
      verdict: "no",
      says: `${changed.name} is not the one that was applied`,
      advice: "restore the file",
    };
  }
  const missing = known.slice(applied.length).map(({ name }) => name);
  if (missing.length === 0) return { check, verdict: "ok", says: `${applied.length} applied, up to date` };
  return { check, verdict: "no", says: `not applied: ${missing.join(", ")}`, advice: "pg-effects migrate" };
}

/** Below these, SERIALIZABLE took neighbours for conflicts (measured before anything was built; docs say how). */
const LOCKS_PER_PAGE_MIN = 300;
const LOCKS_PER_RELATION_MIN = 5_000;

export function checkPredicateLocks({ per_page, per_relation }: PredicateLocks): Check {
  const says = `max_pred_locks_per_page ${per_page}, max_pred_locks_per_relation ${per_relation}`;
  if (per_page >= LOCKS_PER_PAGE_MIN && per_relation >= LOCKS_PER_RELATION_MIN) {
    return { check: "predicate locks", verdict: "ok", says };
  }
  return {
    check: "predicate locks",
    verdict: "warn",
    says: `${says}: admissions of strangers conflict under load`,
    advice: `set max_pred_locks_per_page = ${LOCKS_PER_PAGE_MIN} and max_pred_locks_per_relation = ${LOCKS_PER_RELATION_MIN}, and reload`,
  };
}

/** Whether jobs are held by somebody who is not there: nobody runs them until they are freed. */
export function checkQueue(stranded: bigint): Check {
  const check = "queue";
  if (stranded === 0n) return { check, verdict: "ok", says: "no job is held by a worker that is gone" };
  return {
    check,
    verdict: "warn",
    says: `${stranded} jobs are held by workers that are gone`,
    advice: "a worker frees them within two minutes: start one, or look at its log",
  };
}

/** Which workers are there; one that fell silent without stopping has died or hangs. */
export function checkWorkers(workers: readonly AuditWorker[]): Check {
  const check = "workers";
  const live = workers.filter(isLive);
  const silent = workers.filter((worker) => !isLive(worker));
  const listed = live.map(
    ({ worker, release, operations, silent_ms }) =>
      `${worker}, release ${release}, heartbeat ${formatDuration(silent_ms)}, ${operations.join(" ")}`,
  );
  if (live.length === 0) {
    const last = silent[0] ? `; the last one fell silent ${formatDuration(silent[0].silent_ms)} ago` : "";
    const says = `none is alive: nothing is prepared, sent or looked up${last}`;
    return { check, verdict: "warn", says, advice: "pg-effects worker" };
  }
  const says = `${live.length} alive: ${listed.join("; ")}`;
  const queueless = live.filter(({ queues, running_ms }) => queues === 0 && running_ms > SILENT_MS);
  if (queueless.length > 0) {
    const names = queueless.map(({ worker }) => worker).join(", ");
    return {
      check,
      verdict: "warn",
      says: `${says}; without a queue, so that it takes no job: ${names}`,
      advice: "look at its log, and start it again",
    };
  }
  if (silent.length === 0) return { check, verdict: "ok", says };
  const gone = silent.map(({ worker, silent_ms }) => `${worker} (${formatDuration(silent_ms)})`).join(", ");
  return {
    check,
    verdict: "warn",
    says: `${says}; silent without having stopped: ${gone}`,
    advice: "look at why it died; its jobs are taken up by the others",
  };
}

/** How long a stopping worker may need: the largest dispatch window of the registered operations. */
export function checkGrace(largestMs: number | null): Check {
  const check = "grace period";
  if (largestMs === null) return { check, verdict: "ok", says: "no operation is registered yet" };
  const seconds = Math.ceil(largestMs / 1_000);
  return {
    check,
    verdict: "ok",
    says: `a worker may need ${seconds} s to stop: give SIGTERM that long before SIGKILL`,
  };
}

export function checkViolations(found: readonly AuditViolation[] | null, limit: number): Check {
  const check = "violations";
  if (found === null) {
    const says = "not counted: looking took longer than 30 s";
    return { check, verdict: "warn", says, advice: "select * from audit.violations, without a timeout" };
  }
  const [first] = found;
  if (!first) return { check, verdict: "ok", says: "none: audit.violations is empty" };
  const count = found.length === limit ? `${limit} or more` : String(found.length);
  return {
    check,
    verdict: "no",
    says: `${count}; the first: ${first.violation} (${first.object}, effect ${first.effect_id ?? "none"}): ${first.detail}`,
    advice: "select * from audit.violations; stop the workers until it is understood",
  };
}
