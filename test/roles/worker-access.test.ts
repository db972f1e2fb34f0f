/** A worker whose role cannot work says so and does not start; graphile-worker alone would run nothing, silently. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { openLedger } from "../../src/index.ts";
import { applyRoles } from "../../src/store/roles.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { register } from "../harness/registration.ts";
import { type Login, openRoleLedger } from "./with-roles.ts";

const subject = await openRoleLedger();
const note = countedOperation("send_note");
const worker = subject.role("worker");
const sender = await subject.login("login_worker", "worker");
const shop = await (await subject.login("login_shop", "service")).open();

before(() => register(subject.connectionString, [note.operation]));

const start = (login: Login) => subject.work({ operations: [note.operation] }, login.connectionString);
/** Puts everything back as the matrix says. */
const grantAgain = () => applyRoles(subject.connectionString, { prefix: subject.prefix, create: false });
const leftBehind = () =>
  subject.value(
    `select (select count(*) from effects_queue._private_jobs j join effects_queue._private_tasks t on t.id = j.task_id
              where identifier like '%probe%')
          + (select count(*) from effects_queue._private_tasks where identifier like '%probe%')`,
  );

test("a login that has no role of the ledger does not even open it, and is told where to read on", async () => {
  const { connectionString } = await subject.login("login_nobody");
  await assert.rejects(openLedger({ connectionString }), { code: "42501", hint: /docs\/roles\.md/ });
});

test("a login of another role opens the ledger and starts no worker", async () => {
  await assert.rejects(start(await subject.login("login_other", "service", "operator")), {
    code: "worker_role_missing",
    message: /login_other cannot work here/,
    hint: /^grant effects_worker to/,
  });
  assert.equal(await subject.value("select count(*) from audit.workers"), "0");
});

test("a worker to whom row security shows no job, or that may only look, refuses to start; the job waits for one that can", async () => {
  const id = await shop.enqueue(note.operation, { to: "ana" });
  await subject.sql(`drop policy "${worker} sees every row" on effects_queue._private_jobs`);
  await assert.rejects(start(sender), { code: "worker_role_missing", message: /no job can be seen under it/ });
  await subject.sql(`create policy looks on effects_queue._private_jobs for select to ${worker} using (true)`);
  await assert.rejects(start(sender), { code: "worker_role_missing", message: /no job can be seen under it/ });
  await subject.sql("drop policy looks on effects_queue._private_jobs");
  assert.equal(note.hits("ana"), 0);
  await grantAgain();
  const working = await start(sender);
  assert.equal((await subject.ended(id)).state, "accepted");
  await working.stop();
  assert.equal(await leftBehind(), "0");
});

test("a worker that may not lock the gates refuses to start", async () => {
  await subject.sql(`revoke all on effects_ledger.gate_5 from ${worker}`);
  await assert.rejects(start(sender), { code: "worker_role_missing", message: /gate_5/ });
  await grantAgain();
  await (await start(sender)).stop();
});

test("a gate that somebody holds keeps no worker from starting", async () => {
  const holder = await subject.connect();
  await holder.query("begin; lock table effects_ledger.gate_3 in exclusive mode");
  await (await start(sender)).stop();
  await holder.query("rollback");
});
