/** Migrating: again, changed, newer, broken, and by two at once (src/store/migrate.ts). */
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import pg from "pg";
import { openLedger } from "../../src/index.ts";
import { foundLedger, migrate, migrateSchema, readMigrations } from "../../src/store/migrate.ts";
import { createTestDatabase } from "../harness/database.ts";
import { waitFor } from "../harness/wait.ts";

const MIGRATIONS = join(import.meta.dirname, "..", "..", "migrations");

/** An empty database and a session in it, until the test ends. */
async function emptyDatabase(): Promise<{ url: string; client: pg.Client }> {
  const { connectionString, drop } = await createTestDatabase(null);
  const client = new pg.Client({ connectionString });
  await client.connect();
  after(async () => {
    await client.end();
    await drop();
  });
  return { url: connectionString, client };
}

/** The project's migrations in a folder of the test's own. */
async function copyOfMigrations(): Promise<{ folder: string; names: readonly string[] }> {
  const folder = await mkdtemp(join(tmpdir(), "pg-effects-migrations-"));
  after(() => rm(folder, { recursive: true }));
  await cp(MIGRATIONS, folder, { recursive: true });
  return { folder, names: (await readdir(folder)).sort() };
}

/** Everything that a migration can make, in one digest. */
const SCHEMA_DIGEST = `select md5(string_agg(line, e'\\n' order by line)) as digest from (
    select 'function ' || pg_get_functiondef(p.oid) as line from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname ~ '^(effects|audit)' and p.prokind in ('f', 'p')
    union all select 'column ' || attrelid::regclass || ' ' || attname || ' ' || atttypid::regtype from pg_attribute a
     join pg_class c on c.oid = attrelid join pg_namespace n on n.oid = c.relnamespace where n.nspname ~ '^(effects|audit)'
    union all select 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
     where connamespace::regnamespace::text ~ '^(effects|audit)'
    union all select 'applied ' || a::text from effects_migrations.applied a) as lines`;

test("migrating a database twice applies everything once and changes nothing the second time", async () => {
  const { url, client } = await emptyDatabase();
  const { names } = await copyOfMigrations();
  const first = await migrate({ connectionString: url, ledger: "shop" });
  assert.deepEqual(first, { applied: names.map((name) => name.replace(".sql", "")), ledger: "shop", rolePrefix: null });
  const before = (await client.query(SCHEMA_DIGEST)).rows;
  const identity = (await client.query("select * from effects_ledger.identity")).rows;
  assert.deepEqual(await migrate({ connectionString: url, ledger: "shop" }), {
    applied: [],
    ledger: "shop",
    rolePrefix: null,
  });
  assert.deepEqual((await client.query(SCHEMA_DIGEST)).rows, before);
  assert.deepEqual((await client.query("select * from effects_ledger.identity")).rows, identity);
});

test("a ledger is founded under one name, and another name is refused", async () => {
  const { url } = await emptyDatabase();
  await migrateSchema(url);
  await assert.rejects(openLedger({ connectionString: url }), { code: "ledger_missing", hint: /migrate/ });
  assert.equal(await foundLedger(url, "shop"), "shop");
  assert.equal(await foundLedger(url, "default"), "shop");
  await assert.rejects(foundLedger(url, "bank"), { code: "ledger_differs" });
  await assert.rejects(openLedger({ connectionString: url, ledger: "bank" }), { code: "ledger_differs" });
  const ledger = await openLedger({ connectionString: url, ledger: "shop" });
  assert.equal(ledger.name, "shop");
  await ledger.close();
});

test("a migration that was changed after it was applied is refused, and nothing is applied", async () => {
  const { url, client } = await emptyDatabase();
  const { folder, names } = await copyOfMigrations();
  const last = names.at(-1) as string;
  await rm(join(folder, last));
  await migrateSchema(url, folder);
  const changed = join(folder, names[2] as string);
  await writeFile(changed, `${await readFile(changed, "utf8")}-- one more line\n`);
  await cp(join(MIGRATIONS, last), join(folder, last));
  await assert.rejects(migrateSchema(url, folder), { code: "migration_changed", hint: /restore the file/ });
  const { rows } = await client.query("select count(*)::int as applied from effects_migrations.applied");
  assert.deepEqual(rows, [{ applied: names.length - 1 }]);
});

test("a history that is newer than the migrations at hand is refused", async () => {
  const { url } = await emptyDatabase();
  const { folder, names } = await copyOfMigrations();
  await migrateSchema(url, folder);
  await rm(join(folder, names.at(-1) as string));
  await assert.rejects(migrateSchema(url, folder), { code: "migration_newer", hint: /newer version/ });
});

test("a migration that fails leaves nothing of itself, and the ones before it in place", async () => {
  const { url, client } = await emptyDatabase();
  const { folder, names } = await copyOfMigrations();
  const broken = join(folder, `${String(names.length + 1).padStart(4, "0")}_broken.sql`);
  await writeFile(broken, "create table effects_ledger.half (); select 1 / 0;");
  await assert.rejects(migrateSchema(url, folder), { code: "migration_failed", message: /division by zero/ });
  const { rows } = await client.query(
    "select to_regclass('effects_ledger.half') as half, max(number) from effects_migrations.applied",
  );
  assert.deepEqual(rows, [{ half: null, max: names.length }]);
  await writeFile(broken, "create table effects_ledger.half ();");
  assert.equal((await migrateSchema(url, folder)).length, 1);
});

test("a folder with a gap or another name is refused", async () => {
  const { folder, names } = await copyOfMigrations();
  await rm(join(folder, names[1] as string));
  await assert.rejects(readMigrations(folder), { code: "migration_misnamed" });
});

test("two that migrate at once wait for each other, and one of them applies everything", async () => {
  const { url, client } = await emptyDatabase();
  // The lock that every migration takes first, held here until both wait for it.
  await client.query("select pg_advisory_lock(7305616201)");
  const both = Promise.all([migrateSchema(url), migrateSchema(url)]);
  await waitFor("both wait for the lock", async () => {
    const { rowCount } = await client.query(
      `select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'
         and application_name = 'pg-effects migrate'`,
    );
    return rowCount === 2;
  });
  assert.equal((await client.query("select to_regnamespace('effects_ledger') as there")).rows[0].there, null);
  await client.query("select pg_advisory_unlock(7305616201)");
  const applied = (await both).map((names) => names.length).sort((a, b) => a - b);
  assert.deepEqual(applied, [0, (await readMigrations()).length]);
});
