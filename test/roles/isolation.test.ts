/** What a service may not do, however it asks (cases 15 and 29, protocol, section 11). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { attempt } from "../harness/attempt.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { register } from "../harness/registration.ts";
import { openRoleLedger } from "./with-roles.ts";

const subject = await openRoleLedger();
const note = countedOperation("send_note");
const shop = await subject.login("login_shop", "service");
const service = await shop.connect();
const ask = (parameters = "") => `select effects.enqueue('send_note', '{"to": "ana"}'${parameters}) as id`;

before(() => register(subject.connectionString, [note.operation]));

test("a permit row inserted by the service's role is refused, and so is every other way past the functions", async () => {
  const { rows } = await service.query<{ id: string }>(ask());
  const id = rows[0]?.id as string;
  const tried = [
    `insert into effects_ledger.permit (effect_id, digest, issued_under, issued_at, expires_at, consumed_at, attempt, attempt_digest)
     values ('${id}', 'x', 'ordinary', now(), now() + interval '1 hour', now(), gen_random_uuid(), 'x')`,
    `update effects_ledger.effect set state = 'prepared' where effect_id = '${id}'`,
    `select effects_ledger.record_admitted('[]', 'me')`,
    `select effects_ledger.record_authority('x', 'y', null, null, 'z')`,
    `select effects_queue.add_job('send_note', '{}')`,
    `delete from effects_queue._private_jobs`,
    `select * from audit.effects`,
    `select * from effects_payload.input`,
    `set role ${subject.role("worker")}`,
    `set role ${subject.role("schema")}`,
    `alter function effects.observe(uuid) security invoker`,
    `create or replace function effects.observe(effect_id uuid) returns setof effects_ledger.observed language sql as 'select null'`,
    `create table effects.mine ()`,
    `create trigger mine before insert on effects_ledger.request execute function pg_notify()`,
  ];
  for (const statement of tried) assert.equal((await attempt(service, statement))?.code, "42501", statement);
});

test("a temporary table or function named like one of the ledger's is not taken for it", async () => {
  const caller = await shop.connect();
  for (const table of ["budget", "task", "actor", "identity", "request", "operation", "speaker", "_private_jobs"]) {
    await caller.query(`create temporary table ${table} (like pg_catalog.pg_class)`);
  }
  for (const name of ["sha256(bytea)", "clock_timestamp()", "pg_has_role(text, text, text)"]) {
    await caller.query(`create function pg_temp.${name} returns text language sql as 'select ''mine''::text'`);
  }
  await caller.query("set search_path = pg_temp, pg_catalog, public");
  await caller.query(`select effects.open_task('t', budgets => '[{"unit": "usd_cents", "limit": 5}]')`);
  const { rows } = await caller.query<{ id: string }>(ask(", task => 't'"));
  assert.equal(await subject.value("select limit_amount from audit.budgets where task_path = 'default > t'"), "5");
  assert.equal(await subject.value("select task_name from audit.effects where effect_id = $1", [rows[0]?.id]), "t");
  const { rows: own } = await caller.query("select count(*)::int as rows from pg_temp.budget");
  assert.deepEqual(own, [{ rows: 0 }]);
});

test("an operator of the caller's own that stands in for a built-in one is not run by what raises privilege", async () => {
  const caller = await shop.connect();
  await caller.query(`create function pg_temp.leak(text, text) returns boolean language plpgsql as
    'begin raise exception ''ran as %'', current_user; end'`);
  await caller.query("create operator pg_temp.= (leftarg = text, rightarg = text, function = pg_temp.leak)");
  await caller.query("set search_path = pg_temp, pg_catalog");
  await caller.query(ask(", name => 'named'"));
  assert.equal((await caller.query("select from effects.find('named')")).rows.length, 1);
});

test("a role without any of the ledger's finds the doors shut", async () => {
  const nobody = await (await subject.login("login_nobody")).connect();
  for (const statement of [
    ask(),
    "select * from effects.operations",
    "select * from effects.effects",
    "select * from audit.ledger",
  ]) {
    assert.equal((await attempt(nobody, statement))?.code, "42501", statement);
  }
});
