/**
 * Migrations: plain numbered SQL under a lock, applied in order, each in a transaction of its own. A history that was
 * changed, or is newer than this version, is refused. graphile-worker's own go into a schema of ours.
 */
import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { runMigrations } from "graphile-worker";
import type pg from "pg";
import { sha256 } from "../core/digest.ts";
import { LedgerError } from "../core/error.ts";
import { checkServer, openClient, wordConnectionError } from "./connection.ts";
import { silentLogger } from "./queue.ts";
import { MIGRATION_LOCK } from "./role-script.ts";
import { applyRoles, planRoles, type RoleOptions } from "./roles.ts";

/** The queue's schema. Never `graphile_worker`: migrating a shared one stops an application's older version. */
export const QUEUE_SCHEMA = "effects_queue";

export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
  readonly digest: string;
}

export interface MigrateOptions extends RoleOptions {
  readonly connectionString: string;
  readonly ledger?: string;
}

export interface Migrated {
  /** The names of the migrations that were missing. */
  readonly applied: readonly string[];
  readonly ledger: string;
  /** What the names of its roles begin with; null where it has none. */
  readonly rolePrefix: string | null;
}

/**
 * Migrates a database, founds its ledger where it has none, and grants its roles what they may do.
 * @throws LedgerError as `migrateSchema`, `foundLedger` and `planRoles` do; what is wrong with the roles is said first.
 */
export async function migrate(options: MigrateOptions): Promise<Migrated> {
  const { connectionString } = options;
  const plan = await planRoles(connectionString, options);
  const applied = await migrateSchema(connectionString);
  const ledger = await foundLedger(connectionString, options.ledger ?? "default");
  if (plan) await applyRoles(connectionString, plan);
  return { applied, ledger, rolePrefix: plan?.prefix ?? null };
}

/**
 * Applies what is missing, without founding a ledger. Returns the names of what was applied.
 * @throws LedgerError `migration_changed`, `migration_newer`, `server_too_old`, or a connection's.
 */
export async function migrateSchema(connectionString: string, folder = migrationsFolder()): Promise<readonly string[]> {
  const migrations = await readMigrations(folder);
  const client = await openClient(connectionString, "pg-effects migrate");
  try {
    await checkServer(client);
    await client.query("select pg_advisory_lock($1)", [MIGRATION_LOCK]);
    await makeHistory(client);
    const { rows: history } = await client.query<Omit<Migration, "sql">>(
      "select number, name, digest from effects_migrations.applied order by number",
    );
    checkHistory(history, migrations);
    await runMigrations({ connectionString, schema: QUEUE_SCHEMA, logger: silentLogger });
    const missing = migrations.slice(history.length);
    for (const migration of missing) await apply(client, migration);
    return missing.map(({ name }) => name);
  } catch (error) {
    throw wordConnectionError(error);
  } finally {
    await client.end();
  }
}

/** Founds the ledger of a migrated database under a name, where it has none. Returns the name of the one that it has. */
export async function foundLedger(connectionString: string, name: string): Promise<string> {
  const client = await openClient(connectionString, "pg-effects migrate");
  try {
    await client.query("select effects_ledger.found($1)", [name]);
    const { rows } = await client.query<{ name: string }>("select name from effects_ledger.identity");
    const found = rows[0]?.name ?? "";
    if (found !== name && name !== "default") {
      throw new LedgerError("ledger_differs", `this database holds the ledger ${found}, not ${name}`, {
        hint: "connect to the other database, or name this ledger",
      });
    }
    return found;
  } catch (error) {
    throw wordConnectionError(error);
  } finally {
    await client.end();
  }
}

/** Reads a folder of migrations: `0001_name.sql`, numbered from 1 without gaps. */
export async function readMigrations(folder = migrationsFolder()): Promise<readonly Migration[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith(".sql")).sort();
  return Promise.all(
    files.map(async (file, place) => {
      const number = Number(/^(\d{4})_[a-z0-9_]+\.sql$/.exec(file)?.[1]);
      if (number !== place + 1) {
        throw new LedgerError("migration_misnamed", `${file} is not migration number ${place + 1}`, {
          hint: "migrations are named 0001_name.sql and count without gaps",
        });
      }
      const sql = await readFile(`${folder}/${file}`, "utf8");
      return { number, name: file.replace(/\.sql$/, ""), sql, digest: sha256(sql).toString("hex") };
    }),
  );
}

/** Where it is missing only: `if not exists` wants the right to create all the same. */
async function makeHistory(client: pg.Client): Promise<void> {
  const { rows } = await client.query("select from pg_namespace where nspname = 'effects_migrations'");
  if (rows.length > 0) return;
  await client.query(
    `create schema effects_migrations
       create table applied (number int primary key, name text not null, digest text not null,
                             applied_at timestamptz not null default clock_timestamp())`,
  );
}

function checkHistory(history: readonly Omit<Migration, "sql">[], migrations: readonly Migration[]): void {
  for (const [place, applied] of history.entries()) {
    const known = migrations[place];
    if (!known) {
      throw new LedgerError("migration_newer", `the database has ${applied.name}, which this version does not know`, {
        hint: "run the newer version of pg-effects",
      });
    }
    if (known.digest !== applied.digest || known.number !== applied.number) {
      throw new LedgerError("migration_changed", `${known.name} is not the one that was applied`, {
        hint: "restore the file; before 1.0.0, where the changelog says that migrations were rewritten, start a new database",
      });
    }
  }
}

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  await client.query("begin");
  try {
    await client.query(migration.sql);
    await client.query("insert into effects_migrations.applied (number, name, digest) values ($1, $2, $3)", [
      migration.number,
      migration.name,
      migration.digest,
    ]);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw new LedgerError(
      "migration_failed",
      `${migration.name}: ${error instanceof Error ? error.message : String(error)}`,
      {
        hint: "nothing of this migration was kept",
        cause: error,
      },
    );
  }
}

/** The migrations lie beside src, and beside dist when built. */
function migrationsFolder(): string {
  const here = fileURLToPath(new URL(".", import.meta.url));
  return here.includes("/dist/") ? `${here}../../../migrations` : `${here}../../migrations`;
}
