/** What an owner says of a ledger that is closed, and what is read before: recovery, violations, checkpoints. */
import { type Kysely, sql } from "kysely";

/** A row with `result`: what is still in flight. */
export const CLOSE_LEDGER = "select effects.close_ledger($1) as result";

/** A row with `result`: commits, effects, epoch, ledger_id. */
export const ACKNOWLEDGE_RECOVERY = "select effects.acknowledge_recovery($1, $2) as result";

/** A row with nothing in it. */
export const ACKNOWLEDGE_VIOLATION = "select effects.acknowledge_violation($1)";
/** A row with nothing in it. */
export const REPORT_VIOLATION = "select effects.report_violation($1)";
/** A row with nothing in it. */
export const CONFIRM_POLICY = "select effects.confirm_policy($1, $2)";

/** A row with checkpoint_id and statement. */
export const MAKE_CHECKPOINT = "select checkpoint_id, statement from effects.make_checkpoint()";
/** A row with nothing in it. */
export const SIGN_CHECKPOINT = "select effects.sign_checkpoint($1, $2, $3)";

/** Where the ledger was written, and where it is. */
export interface Place {
  readonly system_identifier: string;
  readonly timeline: string | null;
  readonly database_oid: number;
}

/** Whether this database is the ledger it was, and what an acknowledgement would meet. */
export interface RecoveryFacts {
  readonly gap: string | null;
  readonly closed_at: Date | null;
  readonly lost_admission: string | null;
  readonly violated_at: Date | null;
  readonly written: Place;
  readonly now: Place;
  readonly waiting: bigint;
  readonly open: bigint;
  readonly unconfirmed_workers: bigint;
}

/** Reads it. */
export async function readRecovery<Tables>(audit: Kysely<Tables>): Promise<RecoveryFacts> {
  const { rows } = await sql<RecoveryFacts>`select * from audit.recovery`.execute(audit);
  return rows[0] as RecoveryFacts;
}

/** A recovery that was acknowledged. */
export interface AcknowledgedRecovery {
  readonly epoch: string;
  readonly acknowledged_by: string;
  readonly acknowledged_at: Date;
  readonly gap: string | null;
  readonly commits: string;
  readonly reason: string;
  readonly effects_made_unresolved: bigint;
}

/** The latest first. */
export async function listRecoveries<Tables>(audit: Kysely<Tables>): Promise<readonly AcknowledgedRecovery[]> {
  const { rows } =
    await sql<AcknowledgedRecovery>`select * from audit.recoveries order by acknowledged_at desc limit 20`.execute(
      audit,
    );
  return rows;
}

/** Something signed, as it is checked outside the database; bytes in hex. */
export interface SignedRow {
  readonly what: string;
  readonly effect_id: string | null;
  readonly statement: string;
  readonly signature: string;
  readonly key_id: string;
  /** Of a registered approver; null for a checkpoint, whose key the database never holds. */
  readonly public_key: string | null;
}

/** So many are read at a time, so that memory stays bounded. */
const SIGNED_BATCH = 1_000;

/** Every counted approval and every signed checkpoint, in batches. */
export async function* readSigned<Tables>(audit: Kysely<Tables>): AsyncGenerator<readonly SignedRow[]> {
  for (let from = 0; ; from += SIGNED_BATCH) {
    const { rows } = await sql<SignedRow>`
      select 'approval ' || a.approval_id as what, a.effect_id, a.statement, a.signature, a.key_id, k.public_key
        from audit.approvals a join audit.approvers k using (key_id) where a.counted
      union all
      select 'checkpoint ' || c.checkpoint_id, null, c.statement, c.signature, c.key_id, null
        from audit.checkpoints c where c.signature is not null
       order by what limit ${SIGNED_BATCH} offset ${from}`.execute(audit);
    if (rows.length > 0) yield rows;
    if (rows.length < SIGNED_BATCH) return;
  }
}
