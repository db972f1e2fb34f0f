/**
 * The ledger that a command speaks to, as its options name it. There is no default: without a connection string a command
 * refuses, because a silent fresh ledger, in which every name is free again, would be worse.
 */
import type { Command } from "commander";
import { LedgerError } from "../core/error.ts";
import type { Ledger } from "../ledger.ts";
import { type Audit, auditOn } from "../store/audit.ts";
import { openPool } from "../store/connection.ts";
import { findLedger } from "../store/ledger.ts";

/** Options that every command takes. */
export interface GlobalFlags {
  readonly database?: string;
  readonly ledger?: string;
  readonly json?: true;
  readonly debug?: true;
}

/** @throws LedgerError `connection_string_missing` */
export function connectionStringOf(flags: GlobalFlags): string {
  if (flags.database) return flags.database;
  throw new LedgerError("connection_string_missing", "no connection string was given", {
    hint: "give --database postgres://user:password@host:port/database, or set DATABASE_URL",
  });
}

/** The ledger that is meant; undefined where none is named. @throws LedgerError `ledger_name_invalid` */
export function ledgerNameOf(flags: GlobalFlags): string | undefined {
  if (!flags.ledger) return undefined;
  if (/^[a-z][a-z0-9_-]{0,62}$/.test(flags.ledger)) return flags.ledger;
  throw new LedgerError("ledger_name_invalid", `the ledger name ${JSON.stringify(flags.ledger)} is refused`, {
    hint: "a ledger's name is a lower-case word of at most 63 characters",
  });
}

/** What a command that reads works with. */
export interface Connected {
  readonly connectionString: string;
  readonly audit: Audit;
  /** False for a login that only requests: then nothing can be read by `audit`. */
  readonly audits: boolean;
}

/**
 * Opens a reader on the ledger that is meant, runs the body, and closes it, however the body ends.
 * @throws LedgerError `server_too_old`, `ledger_missing`, `ledger_differs`, or a connection's.
 */
export async function withAudit<Result>(
  flags: GlobalFlags,
  body: (connected: Connected) => Promise<Result>,
): Promise<Result> {
  const connectionString = connectionStringOf(flags);
  const meant = ledgerNameOf(flags);
  const pool = openPool({ connectionString, applicationName: "pg-effects audit", max: 2 });
  try {
    const { audits } = await findLedger(pool, meant);
    return await body({ connectionString, audit: auditOn(pool), audits });
  } finally {
    await pool.end();
  }
}

/** The same with the ledger itself, for a command that asks it for something. Loaded here: it brings the queue with it. */
export async function withLedger<Result>(
  flags: GlobalFlags,
  body: (connected: Connected & { readonly ledger: Ledger }) => Promise<Result>,
): Promise<Result> {
  return withAudit(flags, async (connected) => {
    const { openLedger } = await import("../ledger.ts");
    const ledger = await openLedger({ connectionString: connected.connectionString, poolMax: 2 });
    try {
      return await body({ ...connected, ledger });
    } finally {
      await ledger.close();
    }
  });
}

/** For `dev` and `demo`, which bring a server of their own: a database that is named all the same is refused, not ignored. */
export function refuseDatabase(command: Command): void {
  for (const option of ["database", "ledger"]) {
    if (command.getOptionValueSourceWithGlobals(option) !== "cli") continue;
    throw new LedgerError("usage_invalid", `${command.name()} starts a server of its own and takes no --${option}`, {
      hint: `leave --${option} out`,
    });
  }
}
