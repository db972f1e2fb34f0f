/** What counts as a confirmed COMMIT, and what is tried again (protocol, section 5: "Confirmed or not"). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import type pg from "pg";
import { openPool } from "../../src/store/connection.ts";
import { CommitUnconfirmedError, transact } from "../../src/store/transaction.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();

/** One connection: a transaction that leaves it unusable, or in a transaction, stands in the next one's way. */
const pool = openPool({
  connectionString: subject.connectionString,
  applicationName: "pool of one",
  max: 1,
  pipeline: true,
});
subject.atEnd(() => pool.end());

type Body = (client: pg.PoolClient) => Promise<{ readonly last: Promise<unknown>; readonly result: () => string }>;
const run = (body: Body) => transact(pool, { isolation: "serializable" }, body);
const insert = (client: pg.PoolClient, what: string) => client.query("insert into written values ($1)", [what]);
const written = (what: string) => subject.value<string>("select count(*) from written where what = $1", [what]);

/** The next transaction finds a connection as it should be. */
async function nextWorks(after: string): Promise<void> {
  const what = `after ${after}`;
  const result = await run(async (client) => ({ last: insert(client, what), result: () => "done" }));
  assert.deepEqual([result, await written(what)], ["done", "1"]);
}

before(async () => {
  await subject.sql("create table written (what text)");
  await subject.sql("create sequence tries");
  await subject.sql(
    `create function at_commit() returns trigger language plpgsql as $$
       begin
         if new.what = 'warned' then raise warning 'the standby was not waited for'; end if;
         if new.what = 'refused' then raise exception 'refused at COMMIT'; end if;
         if new.what = 'in conflict' then
           perform nextval('tries');
           raise exception 'a conflict' using errcode = '40001';
         end if;
         return null;
       end $$`,
  );
  await subject.sql(
    "create constraint trigger at_commit after insert on written deferrable initially deferred for each row execute function at_commit()",
  );
});

test("a COMMIT after a swallowed error answers ROLLBACK, which is no success", async () => {
  const swallowing = run(async (client) => {
    await insert(client, "swallowed");
    await client.query("select 1 / 0").catch(() => {}); // as careless code does
    return { last: Promise.resolve(), result: () => "done" };
  });
  await assert.rejects(swallowing, (error) => !(error instanceof CommitUnconfirmedError));
  assert.equal(await written("swallowed"), "0");
  await nextWorks("swallowed");
});

test("an error of the last statement, which COMMIT follows unawaited, is the transaction's error", async () => {
  const failing = run(async (client) => {
    await insert(client, "last");
    return { last: client.query("select 1 / 0"), result: () => "done" };
  });
  await assert.rejects(failing, { code: "22012" });
  assert.equal(await written("last"), "0");
  await nextWorks("last");
});

test("an error at COMMIT itself is not unconfirmed: the server says that nothing stands", async () => {
  const failing = run(async (client) => ({ last: insert(client, "refused"), result: () => "done" }));
  await assert.rejects(failing, { code: "P0001" });
  assert.equal(await written("refused"), "0");
  await nextWorks("refused");
});

test("COMMIT with a warning beside it is unconfirmed, although it stands", async () => {
  const warned = run(async (client) => ({ last: insert(client, "warned"), result: () => "done" }));
  await assert.rejects(warned, (error) => error instanceof CommitUnconfirmedError);
  assert.equal(await written("warned"), "1");
  await nextWorks("warned");
});

test("a body that throws leaves nothing, and its error is the caller's", async () => {
  const thrown = new Error("thrown by the body");
  const throwing = run(async (client) => {
    await insert(client, "thrown");
    throw thrown;
  });
  await assert.rejects(throwing, (error) => error === thrown);
  assert.equal(await written("thrown"), "0");
  await nextWorks("thrown");
});

test("a conflict is tried again a bounded number of times, and is then the caller's error", async () => {
  const conflicting = run(async (client) => ({ last: insert(client, "in conflict"), result: () => "done" }));
  await assert.rejects(conflicting, { code: "40001" });
  assert.equal(await subject.value("select last_value from tries"), "20");
  await nextWorks("in conflict");
});

for (const [when, sql] of [
  ["before COMMIT was sent", "update written set what = what where what = 'row'"],
  ["while COMMIT was on its way", "insert into written values ('sent')"],
] as const) {
  test(`a session ended ${when} leaves nothing, and says which of both it was`, async () => {
    await subject.sql("insert into written values ('row')");
    const holder = await subject.connect();
    await holder.query("begin; lock table written in share mode");
    const ended = run(async (client) => {
      const statement = client.query(sql);
      if (when === "before COMMIT was sent") await statement;
      return { last: statement, result: () => "done" };
    });
    const failure = assert.rejects(
      ended,
      (error) => error instanceof CommitUnconfirmedError === (when === "while COMMIT was on its way"),
    );
    await waitFor("it waits for the lock", () =>
      subject.value(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'pool of one' and wait_event_type = 'Lock'`,
      ),
    );
    await failure;
    await holder.query("commit");
    assert.equal(await written("sent"), "0");
    await nextWorks(when);
  });
}
