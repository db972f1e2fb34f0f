import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Client } from "pg";
import { createTestDatabase, type Template, type TestDatabase } from "./database.ts";

/** Counts how often it was made in this process; the database it makes holds one row. */
function countingTemplate(): Template & { made: number } {
  return {
    label: "counting",
    made: 0,
    async make(connectionString) {
      this.made += 1;
      await query(connectionString, "create table mark (word text); insert into mark values ('template')");
    },
  };
}

interface Ledger {
  readonly ledger_id: string;
  readonly standing: string;
}

const databases: TestDatabase[] = [];
after(() => Promise.all(databases.map((database) => database.drop())));

test("databases asked for at the same time are copies of one template, and strangers to each other", async () => {
  const template = countingTemplate();
  const made = await Promise.all([1, 2, 3].map(() => createTestDatabase(template)));
  databases.push(...made);
  assert.equal(template.made, 1);
  const [first, second] = made;
  assert.ok(first && second);
  await query(first.connectionString, "update mark set word = 'first'");
  assert.deepEqual(await query(second.connectionString, "select word from mark"), [{ word: "template" }]);
});

test("by default a database is a ledger founded in it", async () => {
  const made = await Promise.all([createTestDatabase(), createTestDatabase()]);
  databases.push(...made);
  const ledgers = made.map(({ connectionString }) =>
    query(
      connectionString,
      "select ledger_id, effects_ledger.identity_standing() as standing from effects_ledger.identity",
    ),
  );
  const [[first], [second]] = (await Promise.all(ledgers)) as [[Ledger], [Ledger]];
  assert.deepEqual([first.standing, second.standing], ["ok", "ok"]);
  assert.notEqual(first.ledger_id, second.ledger_id);
});

test("a template whose making failed is made again, and its error is the caller's", async () => {
  const template: Template = { label: "broken", make: (url) => query(url, "create table half (); select 1 / 0") };
  await assert.rejects(createTestDatabase(template), { code: "22012" });
  const mended = { label: "broken", make: (url: string) => query(url, "create table half ()") };
  databases.push(await createTestDatabase(mended));
});

test("a database is dropped although a session is in it", async () => {
  const database = await createTestDatabase(null);
  const client = new Client({ connectionString: database.connectionString });
  // pg reports the server's message first and the closed socket after it; both come as "error".
  const broken = new Promise<Error & { code?: string }>((resolve) => client.on("error", resolve));
  await client.connect();
  await database.drop();
  assert.equal((await broken).code, "57P01");
  await assert.rejects(query(database.connectionString, "select 1"), { code: "3D000" });
});

async function query(connectionString: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}
