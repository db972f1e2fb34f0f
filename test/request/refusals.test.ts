/** Every refusal of effects.enqueue, each with its code and a hint, and nothing written (surface, SQL). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { foundLedger, migrateSchema } from "../../src/store/migrate.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { createTestDatabase, LEDGER_TEMPLATE } from "../harness/database.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { register } from "../harness/registration.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const { operation } = countedOperation("send_note");
const SOON = "now() + interval '1 minute'";

before(async () => {
  await register(subject.connectionString, [operation]);
  for (const name of ["ended", "revoked", "expired"]) await ledger.openTask(name);
  await subject.sql("update effects_ledger.task set ended_at = clock_timestamp() where name = 'ended'");
  await subject.sql("update effects_ledger.task set revoked_at = clock_timestamp() where name = 'revoked'");
  await subject.sql("update effects_ledger.task set deadline = clock_timestamp() where name = 'expired'");
});

/** The arguments of a call beyond a good one, and how it is refused. */
const REFUSALS: readonly (readonly [code: string, parameters: string, message: RegExp])[] = [
  ["22023", "notify => 'The Inbox'", /^the inbox "The Inbox" is refused$/],
  ["22023", "follow_max => 101", /^follow_max is outside 0 to 100$/],
  ["PE109", "follows => gen_random_uuid()", /^effect_unknown: there is no effect .* of this actor's$/],
  ["PE123", "invocation => gen_random_uuid()", /^invocation_unknown: /],
  ["22023", "on_denial => 'forget'", /^on_denial is forget$/],
  ["22023", "on_denial => null", /^on_denial is null$/],
  ["22023", "priority => null", /^priority is null$/],
  ["22023", "priority => 32768", /^priority is /],
  ["22023", "priority => -32769", /^priority is /],
  ["22023", "name => ''", /^a name has 1 to 200 characters$/],
  ["22023", "name => repeat('é', 201)", /^a name has 1 to 200 characters$/],
  ["22023", "trace => repeat('t', 513)", /^a trace has at most 512 characters$/],
  ["22023", "expires_at => clock_timestamp()", /^expires_at is in the past$/],
  ["22023", `not_before => ${SOON}, expires_at => ${SOON}`, /^not_before is not before it expires/],
  ["22023", "not_before => clock_timestamp() + interval '25 hours'", /^not_before is not before it expires/],
  ["PE103", "task => 'nowhere'", /^task_unknown: .*"nowhere"$/],
  ["PE103", "task => null", /^task_unknown: no task is named null$/],
  ["PE108", "task => 'ended'", /^task_ended: /],
  ["PE108", "task => 'revoked'", /^task_ended: /],
  ["PE108", "task => 'expired'", /^task_ended: /],
  ["42501", "actor => 'somebody'", /does not speak for the actor "somebody"$/],
];

const requests = () => subject.value("select count(*) from effects_ledger.request");

for (const [code, parameters, message] of REFUSALS) {
  test(`${parameters} is refused with ${code}`, async () => {
    await assert.rejects(
      subject.sql(`select effects.enqueue('send_note', '{"to":"a"}', ${parameters})`),
      (error: Error & { code: string; hint?: string }) => {
        assert.equal(error.code, code);
        assert.match(error.message, message);
        return Boolean(error.hint);
      },
    );
    assert.equal(await requests(), "0");
  });
}

test("what is at a bound is taken", async () => {
  const id = await subject.value<string>(
    `select effects.enqueue('send_note', '{"to":"a"}', name => repeat('é', 200), trace => repeat('t', 512),
       expires_at => ${SOON}, priority => -32768, actor => session_user)`,
  );
  assert.deepEqual(await ledger.observe(id), { state: "requested", waitingFor: null });
});

test("an operation that no worker has registered is refused with PE101", async () => {
  await assert.rejects(subject.sql("select effects.enqueue('unheard_of', '{}')"), {
    code: "PE101",
    hint: /start a worker/,
  });
  await assert.rejects(subject.sql("select effects.enqueue(null, '{}')"), {
    code: "PE101",
    message: "operation_unknown: no operation is named null",
  });
  await assert.rejects(ledger.enqueue(countedOperation("unheard_of").operation, { to: "a" }), {
    name: "LedgerError",
    code: "PE101",
    hint: /start a worker/,
  });
});

/** Runs a request as another role, inside a transaction that leaves nothing of that role behind. */
async function asRole(statements: readonly string[], request: string) {
  const client = await subject.connect();
  await client.query("begin");
  try {
    await client.query("create role stranger");
    await client.query("grant usage on schema effects to stranger");
    await client.query("grant execute on all functions in schema effects to stranger");
    for (const statement of statements) await client.query(statement);
    await client.query("set local role stranger");
    return await client.query(request);
  } finally {
    await client.query("rollback");
  }
}
const REQUEST = `select effects.enqueue('send_note', '{"to":"a"}') as id`;

test("an actor is registered at its first request, unless the ledger is strict", async () => {
  assert.equal((await asRole([], REQUEST)).rows.length, 1);
  await assert.rejects(asRole(["update effects_ledger.identity set strict = true"], REQUEST), {
    code: "42501",
    message: "the actor stranger is not registered",
  });
});

test("a revoked actor is refused, and so is one whose task it is not", async () => {
  const revoked =
    "insert into effects_ledger.actor (actor, registered_by, revoked_at) values ('stranger', 'test', now())";
  await assert.rejects(asRole([revoked], REQUEST), { code: "42501", message: "the actor stranger is revoked" });
  await ledger.openTask("mine");
  await assert.rejects(asRole([], `select effects.enqueue('send_note', '{"to":"a"}', task => 'mine')`), {
    code: "42501",
    message: 'the task "mine" is not of the actor stranger',
  });
});

test("a role without a grant enqueues nothing, and reads no table", async () => {
  const without = ["revoke execute on all functions in schema effects from stranger"];
  await assert.rejects(asRole(without, REQUEST), { code: "42501" });
  await assert.rejects(asRole([], "select * from effects_ledger.request"), { code: "42501" });
  await assert.rejects(asRole([], "select * from audit.effects"), { code: "42501" });
});

test("a migrated database in which no ledger was founded refuses with 55000", async () => {
  const { connectionString, drop } = await createTestDatabase({
    label: LEDGER_TEMPLATE.label,
    make: (url) => migrateSchema(url),
  });
  subject.atEnd(drop);
  await register(connectionString, [operation]);
  const { Client } = (await import("pg")).default;
  const client = new Client({ connectionString });
  await client.connect();
  try {
    await assert.rejects(client.query(REQUEST), { code: "55000", hint: /migrate/ });
    assert.equal(await foundLedger(connectionString, "shop"), "shop");
    assert.equal((await client.query(REQUEST)).rows.length, 1);
  } finally {
    await client.end();
  }
});
