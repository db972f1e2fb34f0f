/** How the command line meets servers and databases: none, the wrong ones, an empty one that `migrate` fills. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { after, describe, test } from "node:test";
import { createTestDatabase, type TestDatabase } from "../harness/database.ts";
import { refusal } from "./refusal.ts";
import { cli, cliJson, failing } from "./run.ts";

const databases: TestDatabase[] = [];
const servers: Server[] = [];
after(() => Promise.all(databases.map((database) => database.drop())));
after(() => {
  for (const server of servers) server.close();
});

async function emptyDatabase(): Promise<string> {
  const database = await createTestDatabase(null);
  databases.push(database);
  return database.connectionString;
}

/** The address of a listener as if it were Postgres. */
async function listening(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  servers.push(server);
  return `postgres://ana:hunter22-secret@127.0.0.1:${(server.address() as AddressInfo).port}/none`;
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

  test("where something else listens, or the address is none", async () => {
    const web = await listening(createHttpServer((_request, response) => response.end("hello")));
    const cutting = await listening(createServer((socket) => socket.once("data", () => socket.end())));
    const cases: readonly (readonly [database: string, exit: number, code: string, hint: RegExp])[] = [
      [web, 1, "server_unreachable", /is it Postgres on that port\?/],
      [cutting, 1, "server_unreachable", /is it Postgres on that port\?/],
      [`${web}?sslmode=verify-full`, 1, "tls_failed", /correct the port/],
      ["postgres://ana:hunter22-secret@127.0.0.1:99999/none", 2, "connection_string_invalid", /postgres:\/\/user:/],
      ["postgres://ana:hunter22-secret@@@::/d", 2, "connection_string_invalid", /%-escaped/],
      [
        "postgres://ana:hunter22-secret@h/d?sslrootcert=/no/such.pem",
        2,
        "connection_string_invalid",
        /path of that file/,
      ],
    ];
    for (const [database, exit, code, hint] of cases) {
      const refused = await refusal(["list"], database);
      assert.deepEqual([refused.exit, refused.code], [exit, code], database);
      assert.match(refused.hint, hint);
    }
  });

  test("where TLS is asked for and the server has none", async () => {
    const database = changed(await emptyDatabase(), (url) => url.searchParams.set("sslmode", "verify-full"));
    const refused = await refusal(["list"], database);
    assert.deepEqual([refused.exit, refused.code], [1, "tls_failed"]);
    assert.match(refused.hint, /take sslmode out/);
  });

  test("where no password is given and one is wanted", async () => {
    const database = changed(await emptyDatabase(), (url) => {
      url.password = "";
    });
    assert.equal((await refusal(["list"], database)).code, "login_refused");
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
