/** Which ledger a database holds, and where its effects stand. Reads only. */
import type pg from "pg";
import { LedgerError } from "../core/error.ts";
import { checkServer } from "./connection.ts";

export interface FoundLedger {
  readonly id: string;
  readonly name: string;
  /** True where this login reads the schema audit. */
  readonly audits: boolean;
}

/**
 * The ledger that is meant, on a server that is new enough.
 * @throws LedgerError `server_too_old`; `ledger_missing` where none was founded; `ledger_differs` where another one is there.
 */
export async function findLedger(pool: pg.Pool, meant?: string): Promise<FoundLedger> {
  await checkServer(pool);
  const { rows: may } = await pool.query<{ enter: boolean; audits: boolean }>(
    "select has_schema_privilege('effects', 'usage') as enter, has_schema_privilege('audit', 'usage') as audits",
  );
  // An auditor reads the schema audit and nothing else; everybody else has the schema effects.
  const { rows } = await pool.query<{ ledger_id: string; name: string }>(
    may[0]?.audits && !may[0].enter
      ? "select ledger_id, name from audit.ledger"
      : "select ledger_id, name from effects.ledger",
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
  return { id: found.ledger_id, name: found.name, audits: may[0]?.audits ?? false };
}

/** The row of effects.find for the effect of a name, of those that the caller may look at; undefined where there is none. */
export async function findNamed<Row extends object>(
  pool: pg.Pool | pg.ClientBase,
  name: string,
  task: string,
): Promise<Row | undefined> {
  const { rows } = await pool.query<Row>("select * from effects.find($1, $2)", [name, task]);
  return rows[0];
}

/** The row of effects.observe for one effect of the caller's own; undefined where there is none. */
export async function observeEffect<Row extends object>(
  pool: pg.Pool | pg.ClientBase,
  effectId: string,
): Promise<Row | undefined> {
  const { rows } = await pool.query<Row>("select * from effects.observe($1)", [effectId]);
  return rows[0];
}
