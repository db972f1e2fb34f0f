/** How the command line meets servers and databases: none, the wrong ones, an empty one that `migrate` fills. */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { createTestDatabase, type TestDatabase } from "../harness/database.ts";
import { refusal } from "./refusal.ts";
import { cli, cliJson, failing } from "./run.ts";

const databases: TestDatabase[] = [];
after(() => Promise.all(databases.map((database) => database.drop())));

async function emptyDatabase(): Promise<string> {
  const database = await createTestDatabase(null);
  databases.push(database);
  return database.connectionString;
}

function changed(connectionString: string, change: (url: URL) => void): string {
  const url = new URL(connectionString);
  change(url);
  return url.href;
}

describe("a server that cannot be used exits 1", () => {
  test("where nothing listens", async () => {
    const ended = await failing(["list"], { database: "postgres://ana:hunter22-secret@127.0.0.1:1/none" });
    assert.deepEqual([ended.exit, ended.code], [1, "server_unreachable"]);
    assert.match(ended.message, /ECONNREFUSED/);
  });

  test("where the login or the database is wrong", async () => {
    const database = await emptyDatabase();
    const stranger = changed(database, (url) => {
      url.username = "nobody_of_that_name";
      url.password = "hunter22-secret";
    });
    const elsewhere = changed(database, (url) => {
      url.pathname = "/no_such_database";
    });
    const [refused, missing] = await Promise.all([refusal(["list"], stranger), refusal(["list"], elsewhere)]);
    assert.deepEqual([refused.exit, refused.code], [1, "login_refused"]);
    assert.deepEqual([missing.exit, missing.code], [1, "database_missing"]);
  });
});

test("an empty database is not taken for a ledger, and migrate makes it one, once", async () => {
  const database = await emptyDatabase();
  const [list, doctor] = await Promise.all([refusal(["list"], database), refusal(["doctor"], database)]);
  for (const { exit, code, hint } of [list, doctor]) {
    assert.deepEqual([exit, code], [1, "ledger_missing"]);
    assert.match(hint, /migrate/);
  }

  const first = await cliJson<{ ledger: string; applied: string[] }>(["migrate", "--ledger", "shop"], { database });
  assert.deepEqual([first.exit, first.document.ledger, first.document.applied[0]], [0, "shop", "0001_ledger"]);
  const again = await cli(["migrate"], { database });
  assert.deepEqual([again.exit, again.stdout], [0, "shop  up to date, nothing to apply\n"]);

  const [named, other, migrated] = await Promise.all([
    cli(["list"], { database, environment: { PG_EFFECTS_LEDGER: "shop" } }),
    refusal(["list", "--ledger", "bank"], database),
    refusal(["migrate", "--ledger", "bank"], database),
  ]);
  assert.deepEqual([named.exit, named.stderr], [0, "no effect matches\n"]);
  assert.deepEqual([other.exit, other.code], [4, "ledger_differs"]);
  assert.deepEqual([migrated.exit, migrated.code], [4, "ledger_differs"]);
});
