/**
 * Reads of the ledger as a whole for the command line: which database it is in, whether it is closed, its server's
 * settings, its workers, its broken invariants. It never writes and judges nothing.
 */
import { sql } from "kysely";
import type { Audit } from "./audit.ts";
import type { AuditViolation } from "./audit-schema.ts";
import { driverCode } from "./connection.ts";

export interface LedgerFacts {
  readonly ledger_id: string;
  readonly name: string;
  readonly founded_at: Date;
  readonly standing: "ok" | "standby" | "unacknowledged";
  /** Settings without which a confirmed commit may be lost. */
  readonly durability_gap: string | null;
  readonly server_version: string;
}

/** By whichever schema this login may read: a service and a worker have no audit. */
export async function readLedger({
  audit,
  audits,
}: {
  readonly audit: Audit;
  readonly audits: boolean;
}): Promise<LedgerFacts> {
  return audit
    .selectFrom(audits ? "audit.ledger" : "effects.ledger")
    .select(["ledger_id", "name", "founded_at", "standing", "durability_gap"])
    .select(sql<string>`current_setting('server_version')`.as("server_version"))
    .executeTakeFirstOrThrow();
}

export interface PredicateLocks {
  /** Row locks on one page before they become a lock of the page. */
  readonly per_page: number;
  /** Locks in one relation before they become a lock of the relation; what a negative setting stands for is worked out. */
  readonly per_relation: number;
}

export async function readPredicateLocks(audit: Audit): Promise<PredicateLocks> {
  return audit
    .selectNoFrom([
      sql<number>`current_setting('max_pred_locks_per_page')::int`.as("per_page"),
      sql<number>`case when current_setting('max_pred_locks_per_relation')::int >= 0
                       then current_setting('max_pred_locks_per_relation')::int
                       else current_setting('max_pred_locks_per_transaction')::int
                            / -current_setting('max_pred_locks_per_relation')::int end`.as("per_relation"),
    ])
    .executeTakeFirstOrThrow();
}

export interface AppliedMigration {
  readonly number: number;
  readonly name: string;
  readonly digest: string;
}

export async function readApplied(audit: Audit): Promise<readonly AppliedMigration[]> {
  return audit.selectFrom("audit.migrations").select(["number", "name", "digest"]).orderBy("number").execute();
}

/** The largest dispatch window of the registered operations, in milliseconds; null where there are none. */
export async function largestDispatchMs(audit: Audit): Promise<number | null> {
  const { largest } = await audit
    .selectFrom("audit.operations")
    .select(sql<number | null>`max((contract ->> 'dispatchTimeoutMs')::numeric)::float8`.as("largest"))
    .where("withdrawn_at", "is", null)
    .executeTakeFirstOrThrow();
  return largest;
}

export interface AuditWorker {
  readonly worker: string;
  readonly release: string;
  readonly operations: readonly string[];
  readonly started_at: Date;
  readonly heartbeat_at: Date;
  /** Since its last heartbeat, by the database's clock. */
  readonly silent_ms: number;
  /** Since its start. */
  readonly running_ms: number;
  /** Of graphile-worker, that take its jobs. */
  readonly queues: number;
}

/** A worker is taken for dead after so long without a heartbeat (protocol, section 6). */
export const SILENT_MS = 15_000;

/** Workers that did not stop by themselves and were heard of within a day, the freshest first. */
export async function readWorkers(audit: Audit): Promise<readonly AuditWorker[]> {
  return audit
    .selectFrom("audit.workers")
    .select(["worker", "release", "started_at", "heartbeat_at", "queues"])
    .select(
      sql<readonly string[]>`array(select o.operation from audit.worker_operations o
        where o.worker = audit.workers.worker order by o.operation)`.as("operations"),
    )
    .select(sql<number>`(extract(epoch from clock_timestamp() - heartbeat_at) * 1000)::float8`.as("silent_ms"))
    .select(sql<number>`(extract(epoch from clock_timestamp() - started_at) * 1000)::float8`.as("running_ms"))
    .where("stopped_at", "is", null)
    .where("heartbeat_at", ">", sql<Date>`clock_timestamp() - interval '1 day'`)
    .orderBy("heartbeat_at", "desc")
    .limit(200)
    .execute();
}

/** Jobs that a queue which nobody calls its own has held for longer than a worker is silent before it is taken for dead. */
export async function countStrandedJobs(audit: Audit): Promise<bigint> {
  const { jobs } = await audit
    .selectFrom("audit.stranded_jobs")
    .select(sql<bigint>`coalesce(sum(jobs), 0)::bigint`.as("jobs"))
    .where("since", "<", sql<Date>`clock_timestamp() - make_interval(secs => ${SILENT_MS / 1_000})`)
    .executeTakeFirstOrThrow();
  return jobs;
}

/** Counting goes through every record, so it is bounded. */
const VIOLATIONS_MS_MAX = 30_000;

/** The first broken invariants; null where looking took longer than 30 seconds. */
export async function readViolations(audit: Audit, limit: number): Promise<readonly AuditViolation[] | null> {
  try {
    return await audit
      .transaction()
      .setIsolationLevel("repeatable read")
      .setAccessMode("read only")
      .execute(async (transaction) => {
        await sql`select set_config('statement_timeout', ${String(VIOLATIONS_MS_MAX)}, true)`.execute(transaction);
        return transaction.selectFrom("audit.violations").selectAll().limit(limit).execute();
      });
  } catch (error) {
    if (driverCode(error) === "57014") return null;
    throw error;
  }
}
