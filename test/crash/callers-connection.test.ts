/**
 * A caller's connection that fails in the middle of a request: the API throws, nothing is consumed, the next call works.
 * What the caller cannot know (did its own COMMIT arrive?) is answered by asking again under the same name.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import pg from "pg";
import { openLedger } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

/** Of a caller's own statements, on its side. */
const QUERY_TIMEOUT_MS = 2_000;

const subject = await openTestLedger();
const { ledger, connectionString } = subject;
const { operation, hits } = countedOperation("send_note");

before(() => subject.work({ operations: [operation] }));

const requests = (name: string) =>
  subject.value<string>("select count(*) from effects_ledger.request where name = $1", [name]);
const pidOf = async (client: pg.Client) =>
  (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid;
const gone = (pid: number | undefined) =>
  waitFor("the session is gone", () =>
    subject.value("select true where not exists (select from pg_stat_activity where pid = $1)", [pid]),
  );

/** The next call, by the same name, and what came of it. */
async function nextWorks(name: string): Promise<void> {
  const id = await ledger.enqueue(operation, { to: name }, { name });
  assert.equal((await subject.ended(id)).state, "accepted");
  await subject.idle();
  assert.deepEqual([await requests(name), hits(name)], ["1", 1]);
}

/** While the body runs no request gets past this point. */
async function holdingRequests(body: () => Promise<void>): Promise<void> {
  const holder = await subject.connect();
  await holder.query("begin; lock table effects_ledger.live in share mode");
  await body().finally(() => holder.query("commit"));
}
const waitingRequest = (application: string) =>
  waitFor("the request waits", () =>
    subject.value<number>(
      "select pid from pg_stat_activity where wait_event_type = 'Lock' and application_name = $1 and query ~ 'enqueue'",
      [application],
    ),
  );

async function clientOf(name: string, options: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client({ connectionString, application_name: name, ...options });
  client.on("error", () => {}); // its next query says so
  await client.connect();
  return client;
}

test("a transaction that idled too long is gone with its request, and says so at COMMIT", async () => {
  const name = "idle in transaction";
  const client = await clientOf(name, { idle_in_transaction_session_timeout: 200 });
  const pid = await pidOf(client);
  await client.query("begin");
  await ledger.enqueue(operation, { to: name }, { name, client });
  await gone(pid);
  await assert.rejects(client.query("commit"));
  await client.end();
  assert.equal(await requests(name), "0");
  await nextWorks(name);
});

test("a session that is ended inside a transaction takes the request with it", async () => {
  const name = "ended in a transaction";
  const client = await clientOf(name, {});
  const pid = await pidOf(client);
  await client.query("begin");
  await ledger.enqueue(operation, { to: name }, { name, client });
  await subject.sql("select pg_terminate_backend($1)", [pid]);
  await gone(pid);
  await assert.rejects(ledger.enqueue(operation, { to: name }, { name: `${name} too`, client }));
  await client.end();
  assert.equal(await requests(name), "0");
  await nextWorks(name);
});

test("a session of the ledger's own that ends during a request: the call throws, and the next one works", async () => {
  const name = "ended during a request";
  await holdingRequests(async () => {
    const asked = ledger.enqueue(operation, { to: name }, { name });
    const failing = assert.rejects(asked, { code: "commit_unconfirmed" });
    await subject.sql("select pg_terminate_backend($1)", [await waitingRequest("pg-effects")]);
    await failing;
  });
  assert.equal(await requests(name), "0");
  await nextWorks(name);
});

test("a client-side timeout inside a transaction: the call throws, and nothing was requested", async () => {
  const name = "timeout in a transaction";
  const client = await clientOf(name, { query_timeout: QUERY_TIMEOUT_MS });
  const pid = await pidOf(client);
  await client.query("begin");
  await holdingRequests(async () => {
    const failing = assert.rejects(ledger.enqueue(operation, { to: name }, { name, client }), /timeout/);
    await waitingRequest(name);
    await failing;
    await client.end();
  });
  await gone(pid);
  assert.equal(await requests(name), "0");
  await nextWorks(name);
});

test("a client-side timeout without a transaction: whichever way it went, the same name is one effect", async () => {
  const name = "timeout in a pool of one";
  const pool = new pg.Pool({ connectionString, application_name: name, max: 1, query_timeout: QUERY_TIMEOUT_MS });
  subject.atEnd(() => pool.end());
  let pid: number | undefined;
  await holdingRequests(async () => {
    const failing = assert.rejects(ledger.enqueue(operation, { to: name }, { name, client: pool }), /timeout/);
    pid = await waitingRequest(name);
    await failing;
  });
  await gone(pid);
  const id = await ledger.enqueue(operation, { to: name }, { name, client: pool });
  assert.equal((await subject.ended(id)).state, "accepted");
  await nextWorks(name);
});

test("a service's pool of one requests inside its own transaction, and is free for the next", async () => {
  const pool = new pg.Pool({ connectionString, max: 1 });
  subject.atEnd(() => pool.end());
  const ids: string[] = [];
  for (const [place, end] of ["commit", "rollback", "commit"].entries()) {
    const client = await pool.connect();
    try {
      await client.query("begin");
      ids.push(await ledger.enqueue(operation, { to: `one ${place}` }, { client }));
      await client.query(end);
    } finally {
      client.release();
    }
  }
  const [first = "", rolledBack = "", second = ""] = ids;
  for (const id of [first, second]) assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(await ledger.observe(rolledBack), null);
  assert.deepEqual([hits("one 0"), hits("one 1"), hits("one 2")], [1, 0, 1]);
});

test("a ledger with one connection takes many calls at once, also while others wait for outcomes", async () => {
  const narrow = await openLedger({ connectionString, poolMax: 1 });
  subject.atEnd(() => narrow.close());
  const ends = Array.from({ length: 20 }, async (_, place) => {
    const id = await narrow.enqueue(operation, { to: `many ${place}` });
    return (await narrow.outcome(operation, id, { timeoutMs: 20_000 })).state;
  });
  assert.deepEqual(new Set(await Promise.all(ends)), new Set(["accepted"]));
});
