/**
 * One database for a test file, copied from a template that is made once for each run. A file that is run alone starts a
 * server for itself and ends it.
 */
import { createHash, randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { escapeIdentifier } from "pg";
import { foundLedger, migrateSchema } from "../../src/store/migrate.ts";
import { dropDatabase, dropDatabases, newRun, onServer } from "./run.ts";
import { startTestServer } from "./server.ts";

/** The environment variable by which global.ts hands its server to the test files. It holds a password: never print it. */
export const HANDED_OVER = "PG_EFFECTS_TEST_SERVER";

export interface HandedOver {
  readonly connectionString: string;
  readonly run: string;
}

export interface TestDatabase {
  readonly connectionString: string;
  readonly name: string;
  /** Also with sessions in it. */
  drop(): Promise<void>;
}

/** What a test database is copied from. */
export interface Template {
  /** Lower-case, short: part of a database name. */
  readonly label: string;
  /** Fills the empty database; must leave no connection to it. */
  make(connectionString: string): Promise<unknown>;
  /** What each copy needs of its own. */
  afterCopy?(connectionString: string): Promise<unknown>;
}

/**
 * What `migrate` makes. The ledger is founded in the copy and not in the template: its identity names the database that
 * it was founded in, and in any other one it is closed.
 */
export const LEDGER_TEMPLATE: Template = {
  label: "ledger",
  make: (connectionString) => migrateSchema(connectionString),
  afterCopy: (connectionString) => foundLedger(connectionString, "default"),
};

/** A fresh database: by default a migrated ledger, with `null` an empty one. */
export async function createTestDatabase(template: Template | null = LEDGER_TEMPLATE): Promise<TestDatabase> {
  const { connectionString: server, run } = await testServer();
  const name = `${run}_${randomBytes(4).toString("hex")}`;
  const source = template ? await templateDatabase(server, run, template) : "template0";
  await onServer(server, (client) =>
    client.query(`create database ${escapeIdentifier(name)} template ${escapeIdentifier(source)}`),
  );
  const connectionString = inDatabase(server, name);
  await template?.afterCopy?.(connectionString);
  return { connectionString, name, drop: () => onServer(server, (client) => dropDatabase(client, name)) };
}

/** The name of the finished template; the first to ask makes it, and who comes at the same time waits for that. */
async function templateDatabase(server: string, run: string, template: Template): Promise<string> {
  const name = `${run}_${template.label}_${await schemaDigest()}`;
  const identifier = escapeIdentifier(name);
  await onServer(server, async (client) => {
    // A session's lock: it ends with the connection, so also with a process that is killed while it makes the template.
    await client.query("select pg_advisory_lock(hashtextextended($1, 0))", [name]);
    const { rows } = await client.query("select datallowconn from pg_database where datname = $1", [name]);
    // Closed to connections is the mark of a finished one; an open one was left by somebody who did not finish.
    if (rows[0]?.datallowconn === false) return;
    await dropDatabase(client, name);
    await client.query(`create database ${identifier} template template0`);
    await template.make(inDatabase(server, name));
    await client.query(`alter database ${identifier} is_template true allow_connections false`);
  });
  return name;
}

/** Twelve hex digits over everything that a migrated database depends on: our migrations, and those of our packages. */
async function schemaDigest(): Promise<string> {
  const root = join(import.meta.dirname, "..", "..");
  const migrations = (await readdir(join(root, "migrations"))).sort().map((file) => join("migrations", file));
  const hash = createHash("sha256");
  for (const file of ["package-lock.json", ...migrations]) {
    hash.update(`${file}\0`).update(await readFile(join(root, file)));
  }
  return hash.digest("hex").slice(0, 12);
}

function inDatabase(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

let found: Promise<HandedOver> | undefined;

function testServer(): Promise<HandedOver> {
  const handedOver = process.env[HANDED_OVER];
  found ??= handedOver ? Promise.resolve(JSON.parse(handedOver) as HandedOver) : startForThisFile();
  return found;
}

async function startForThisFile(): Promise<HandedOver> {
  const server = await startTestServer();
  const run = newRun();
  // Not an `after` hook: hooks run in the order of registration, and this must come after all of the file's own.
  process.once("beforeExit", async () => {
    await dropDatabases(server.connectionString, run);
    await server.stop();
  });
  return { connectionString: server.connectionString, run };
}
