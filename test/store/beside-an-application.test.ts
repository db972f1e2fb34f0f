/** An application's own graphile-worker in the same database is not touched by ours, and both work (surface). */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Logger, makeWorkerUtils, runMigrations, runOnce } from "graphile-worker";
import pg from "pg";
import { openLedger } from "../../src/index.ts";
import { foundLedger, migrateSchema } from "../../src/store/migrate.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { createTestDatabase } from "../harness/database.ts";
import { waitFor } from "../harness/wait.ts";

const { connectionString, drop } = await createTestDatabase(null);
const pool = new pg.Pool({ connectionString, max: 2 });
const logger = new Logger(() => () => {});
const operation = countedOperation("send_note");
after(async () => {
  await pool.end();
  await drop();
});

/** Tables, functions and rows of the application's schema. */
async function applicationsOwn(): Promise<unknown> {
  const { rows } = await pool.query(
    `select (select json_agg(m order by m.id) from graphile_worker.migrations m) as migrations,
       (select json_agg(j order by j.id) from graphile_worker._private_jobs j) as jobs,
       (select md5(string_agg(pg_get_functiondef(oid), '' order by oid)) from pg_proc
         where pronamespace = 'graphile_worker'::regnamespace) as functions,
       (select md5(string_agg(oid::text || relname || coalesce(relacl::text, ''), '' order by oid)) from pg_class
         where relnamespace = 'graphile_worker'::regnamespace) as relations`,
  );
  return rows[0];
}

before(async () => {
  await runMigrations({ connectionString, logger });
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.addJob("send_note", { of: "the application" }, { jobKey: "k1" });
  await utils.release();
});

test("migrating, founding and working leave the application's queue as it was, a job of the same name too", async () => {
  const before = await applicationsOwn();
  await migrateSchema(connectionString);
  await foundLedger(connectionString, "default");
  const ledger = await openLedger({ connectionString });
  const worker = await ledger.work({ operations: [operation.operation], log: () => {} });
  try {
    const id = await ledger.enqueue(operation.operation, { to: "a" });
    await waitFor("the effect is accepted", async () => (await ledger.observe(id))?.state === "accepted");
    assert.deepEqual(await applicationsOwn(), before);
  } finally {
    await worker.stop();
    await ledger.close();
  }
});

test("the application's own worker goes on and runs its job, and not ours", async () => {
  const ran: unknown[] = [];
  const taskList = { send_note: (payload: unknown) => void ran.push(payload) };
  await runOnce({ connectionString, taskList, logger, noHandleSignals: true });
  assert.deepEqual(ran, [{ of: "the application" }]);
  assert.equal(operation.hits("a"), 1);
});
