/** Which ledger a database holds, and where its effects stand. Reads only. */
import type pg from "pg";

/** The ledger of a database; null where it was never founded. */
export async function readLedger(pool: pg.Pool): Promise<{ readonly id: string; readonly name: string } | null> {
  const { rows } = await pool.query<{ ledger_id: string; name: string }>(
    "select ledger_id, name from effects_ledger.identity",
  );
  const found = rows[0];
  return found ? { id: found.ledger_id, name: found.name } : null;
}

/** The row of effects.observe for one effect of the caller's own; undefined where there is none. */
export async function observeEffect<Row extends object>(pool: pg.Pool, effectId: string): Promise<Row | undefined> {
  const { rows } = await pool.query<Row>("select * from effects.observe($1)", [effectId]);
  return rows[0];
}
