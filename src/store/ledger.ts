/** Which ledger a database holds, and where its effects stand. Reads only. */
import type pg from "pg";
import { LedgerError } from "../core/error.ts";
import { checkServer } from "./connection.ts";

/**
 * The ledger that is meant, on a server that is new enough.
 * @throws LedgerError `server_too_old`; `ledger_missing` where none was founded; `ledger_differs` where another one is there.
 */
export async function findLedger(
  pool: pg.Pool,
  meant?: string,
): Promise<{ readonly id: string; readonly name: string }> {
  await checkServer(pool);
  const { rows } = await pool.query<{ ledger_id: string; name: string }>(
    "select ledger_id, name from effects_ledger.identity",
  );
  const found = rows[0];
  if (!found) {
    throw new LedgerError("ledger_missing", "this database holds no ledger yet", { hint: "run pg-effects migrate" });
  }
  if (meant !== undefined && meant !== found.name) {
    throw new LedgerError("ledger_differs", `this database holds the ledger ${found.name}, not ${meant}`, {
      hint: "connect to the other database, or name this ledger",
    });
  }
  return { id: found.ledger_id, name: found.name };
}

/** The row of effects.observe for one effect of the caller's own; undefined where there is none. */
export async function observeEffect<Row extends object>(pool: pg.Pool, effectId: string): Promise<Row | undefined> {
  const { rows } = await pool.query<Row>("select * from effects.observe($1)", [effectId]);
  return rows[0];
}
