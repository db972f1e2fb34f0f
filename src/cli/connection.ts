/**
 * The ledger that a command speaks to, as its options name it. There is no default: without a connection string a command
 * refuses, because a silent fresh ledger, in which every name is free again, would be worse.
 */
import type { Command } from "commander";
import { LedgerError } from "../core/error.ts";
import { type Ledger, openLedger } from "../ledger.ts";
import { type Audit, openAudit } from "../store/audit.ts";

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

/** A command's connections. */
export interface Connected {
  readonly connectionString: string;
  readonly ledger: Ledger;
  readonly audit: Audit;
}

/** Opens the ledger, runs the body, and closes everything, however it ends. @throws as `openLedger` does. */
export async function withLedger<Result>(
  flags: GlobalFlags,
  body: (connected: Connected) => Promise<Result>,
): Promise<Result> {
  const connectionString = connectionStringOf(flags);
  const name = ledgerNameOf(flags);
  const ledger = await openLedger({ connectionString, poolMax: 2, ...(name ? { ledger: name } : {}) });
  const audit = openAudit(connectionString);
  try {
    return await body({ connectionString, ledger, audit });
  } finally {
    await Promise.all([audit.destroy(), ledger.close()]);
  }
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
