/** A request belongs to the caller's own transaction, whichever driver opened it (protocol, section 3; case 7). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Kysely, PostgresDialect, sql } from "kysely";
import pg from "pg";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { register } from "../harness/registration.ts";

const subject = await openTestLedger();
const { ledger, connectionString } = subject;
const { operation, hits } = countedOperation("send_note");

before(async () => {
  await register(connectionString, [operation]);
  await subject.sql("create table orders (id int primary key)");
});

/** Everything that a request writes, anywhere. */
const rowsOf = (effectId: string) =>
  subject.value<string>(
    `select (select count(*) from effects_ledger.request where effect_id = $1) +
            (select count(*) from effects_ledger.effect where effect_id = $1) +
            (select count(*) from effects_ledger.event where effect_id = $1) +
            (select count(*) from effects_ledger.live where effect_id = $1) +
            (select count(*) from effects_payload.input where effect_id = $1) +
            (select count(*) from effects_queue.jobs where key = $1::text)`,
    [effectId],
  );

test("a request commits with the caller's rows on a pg client", async () => {
  const client = await subject.connect();
  await client.query("begin");
  await client.query("insert into orders values (1)");
  const id = await ledger.enqueue(operation, { to: "a" }, { client });
  assert.equal(await ledger.observe(id), null, "seen by another session before COMMIT");
  await client.query("commit");
  assert.deepEqual(await ledger.observe(id), { state: "requested", waitingFor: null });
  assert.equal(await rowsOf(id), "6");
});

test("a rollback leaves nothing of a request or of its task", async () => {
  const client = await subject.connect();
  await client.query("begin");
  await ledger.openTask("rolled back", { budgets: { usd_cents: 5n }, client });
  const id = await ledger.enqueue(operation, { to: "b" }, { task: "rolled back", client });
  await client.query("rollback");
  assert.equal(await rowsOf(id), "0");
  assert.equal(await subject.value("select count(*) from effects_ledger.task where name = 'rolled back'"), "0");
  await assert.rejects(ledger.enqueue(operation, { to: "b" }, { task: "rolled back" }), { code: "PE103" });
});

test("a request commits, or not, with a Kysely transaction", async () => {
  const database = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString, max: 1 }) }) });
  subject.atEnd(() => database.destroy());
  const kept = await database.transaction().execute(async (transaction) => {
    await sql`insert into orders values (2)`.execute(transaction);
    return ledger.enqueue(operation, { to: "c" }, { client: transaction });
  });
  assert.equal(await rowsOf(kept), "6");
  let dropped = "";
  await assert.rejects(
    database.transaction().execute(async (transaction) => {
      dropped = await ledger.enqueue(operation, { to: "d" }, { client: transaction });
      throw new Error("the order is refused");
    }),
    { message: "the order is refused" },
  );
  assert.equal(await rowsOf(dropped), "0");
});

test("any driver can run the statement of a request", async () => {
  const { text, values } = ledger.statement(operation, { to: "e" }, { name: "e" });
  const client = await subject.connect();
  const first = await client.query<{ effect_id: string }>(text, [...values]);
  assert.equal(await ledger.enqueue(operation, { to: "e" }, { name: "e" }), first.rows[0]?.effect_id);
});

test("a refused request aborts the caller's transaction, and a savepoint keeps the rest", async () => {
  const client = await subject.connect();
  await client.query("begin");
  await client.query("insert into orders values (3)");
  await client.query("savepoint before_effect");
  await assert.rejects(ledger.enqueue(operation, { to: "f" }, { task: "nowhere", client }), { code: "PE103" });
  await assert.rejects(client.query("select 1"), { code: "25P02" });
  await client.query("rollback to before_effect");
  const id = await ledger.enqueue(operation, { to: "f" }, { client });
  await client.query("commit");
  assert.equal(await rowsOf(id), "6");
  assert.equal(await subject.value("select count(*) from orders where id = 3"), "1");
});

test("in a transaction that swallowed a failed statement a request throws and nothing is sent; a second try works", async () => {
  const client = await subject.connect();
  const order = async (id: number) => {
    await client.query("begin");
    await client.query("insert into orders values ($1)", [id]).catch(() => {}); // as careless callers do
    try {
      return await ledger.enqueue(operation, { to: "g" }, { name: "g", client });
    } finally {
      assert.equal((await client.query("commit")).command, id === 1 ? "ROLLBACK" : "COMMIT");
    }
  };
  await assert.rejects(order(1), { code: "25P02" });
  assert.equal(await subject.value("select count(*) from effects_ledger.request where name = 'g'"), "0");
  const id = await order(4);
  await subject.work({ operations: [operation] });
  assert.equal((await subject.ended(id)).state, "accepted");
  await subject.idle();
  assert.equal(hits("g"), 1);
  assert.equal(hits("b") + hits("d"), 0, "what was rolled back was sent");
});
