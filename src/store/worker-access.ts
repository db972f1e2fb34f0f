/**
 * What a worker proves before it takes jobs: that under its login a job can be seen and taken, and that the gates can be
 * locked. graphile-worker itself would say nothing and run nothing (its tables have row security). It leaves nothing behind.
 */
import type pg from "pg";
import { LedgerError } from "../core/error.ts";
import { driverCode } from "./connection.ts";
import { GATES, lookAndRollBack } from "./transaction.ts";

/** @throws LedgerError `worker_role_missing` where the login could not work. */
export async function proveWorkerAccess(pool: pg.Pool): Promise<void> {
  const client = await pool.connect();
  try {
    if (!(await lookAndRollBack(client, takesJob))) throw await refusal(client, "no job can be seen under it");
    await lookAndRollBack(client, lockGates);
  } catch (error) {
    if (driverCode(error) !== "42501" || error instanceof LedgerError) throw error;
    throw await refusal(client, error instanceof Error ? error.message : String(error), error);
  } finally {
    client.release();
  }
}

/** What graphile-worker does with a job, to one that was added as a request adds it. */
async function takesJob(client: pg.ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ id: string }>("select effects_ledger.add_probe_job()::text as id");
  const values = [rows[0]?.id];
  const { rowCount: taken } = await client.query(
    `update effects_queue._private_jobs j set locked_at = now(), locked_by = 'probe'
       from (select id from effects_queue._private_jobs where id = $1::bigint for update skip locked) as seen
      where j.id = seen.id`,
    values,
  );
  const { rowCount: completed } = await client.query(
    "delete from effects_queue._private_jobs where id = $1::bigint",
    values,
  );
  return taken === 1 && completed === 1;
}

/** A gate that somebody holds is proof enough: the right is looked at before the lock. */
async function lockGates(client: pg.ClientBase): Promise<void> {
  const gates = Array.from({ length: GATES }, (_, gate) => `effects_ledger.gate_${gate}`);
  try {
    await client.query(`lock table ${gates.join(", ")} in exclusive mode nowait`);
  } catch (error) {
    if (driverCode(error) !== "55P03") throw error;
  }
}

async function refusal(client: pg.ClientBase, why: string, cause?: unknown): Promise<LedgerError> {
  const { rows } = await client.query<{ login: string }>("select current_user as login");
  const login = rows[0]?.login ?? "";
  return new LedgerError("worker_role_missing", `the login ${login} cannot work here: ${why}`, {
    hint: `grant effects_worker to ${login} (or what the ledger's own prefix makes of it: docs/roles.md); where it has that, run pg-effects migrate again, which grants what is new`,
    ...(cause === undefined ? {} : { cause }),
  });
}
