/** Who acts, who speaks for whom, and who may look (protocol, sections 3 and 11). */
import assert from "node:assert/strict";
import { before, beforeEach, test } from "node:test";
import pg from "pg";
import { countedOperation } from "../harness/counted-operation.ts";
import { register } from "../harness/registration.ts";
import { waitFor } from "../harness/wait.ts";
import { type Login, openRoleLedger } from "./with-roles.ts";

const subject = await openRoleLedger();
const note = countedOperation("send_note");

const owner = await (await subject.login("login_owner", "owner")).connect();
const operator = await (await subject.login("login_operator", "operator")).connect();
const sender = await subject.login("login_worker", "worker");

before(() => register(subject.connectionString, [note.operation]));

let count = 0;
let app: Login;
let client: pg.Client;
/** A login of the service and a session of it, for each test. */
beforeEach(async () => {
  app = await subject.login(`login_app_${++count}`, "service");
  client = await app.connect();
});

const enqueue = async (by: pg.ClientBase, parameters = "") => {
  const { rows } = await by.query<{ id: string }>(
    `select effects.enqueue('send_note', '{"to": "ana"}'${parameters}) as id`,
  );
  return rows[0]?.id as string;
};
const states = (by: pg.ClientBase, id: string) =>
  by.query("select state from effects.observe($1)", [id]).then(({ rows }) => rows.length);
const changes = (object: string) =>
  subject.value(
    "select string_agg(change || ' by ' || by_role, ', ' order by seq) from audit.authority where object = $1",
    [object],
  );

test("a member of the service role is registered at its first request; whoever is none is refused, with what to do", async () => {
  const id = await enqueue(client);
  assert.equal(await subject.value("select actor from audit.effects where effect_id = $1", [id]), app.name);
  // A function of the application's own, which raises to a role of the service: the caller is looked at all the same.
  await subject.sql(`create schema if not exists app_${count}`);
  await subject.sql(
    `create function app_${count}.ask() returns uuid language sql security definer as $$ select effects.enqueue('send_note', '{"to": "x"}') $$`,
  );
  await subject.sql(`grant usage on schema app_${count} to public`);
  const stranger = await subject.login(`stranger_${count}`);
  await assert.rejects((await stranger.connect()).query(`select app_${count}.ask()`), {
    code: "42501",
    message: `${stranger.name} may not request: it is no member of ${subject.role("service")}`,
    hint: `grant ${subject.role("service")} to ${stranger.name}`,
  });
  await subject.sql(`drop schema app_${count} cascade`);
});

test("the role set by SET ROLE is the actor; the login is kept; a pooled connection leaks nothing to its next user", async () => {
  for (const tenant of ["tenant_a", "tenant_b"]) {
    await subject.sql(`create role ${subject.prefix}${tenant}_${count} in role ${subject.role("service")}`);
    await subject.sql(`grant ${subject.prefix}${tenant}_${count} to ${app.name}`);
  }
  const pool = new pg.Pool({ connectionString: app.connectionString, max: 1 });
  subject.atEnd(() => pool.end());
  const under = async <Result>(tenant: string, work: (by: pg.PoolClient) => Promise<Result>) => {
    const by = await pool.connect();
    try {
      await by.query("begin");
      await by.query(`set local role ${subject.prefix}${tenant}_${count}`);
      const result = await work(by);
      await by.query("commit");
      return result;
    } finally {
      by.release();
    }
  };
  const id = await under("tenant_a", (by) => enqueue(by));
  const [row] = await subject.sql<object>(
    "select actor, requested_by, spoken_by from audit.effects where effect_id = $1",
    [id],
  );
  assert.deepEqual(row, { actor: `${subject.prefix}tenant_a_${count}`, requested_by: app.name, spoken_by: null });
  assert.equal(await under("tenant_a", (by) => states(by, id)), 1);
  assert.equal(await under("tenant_b", (by) => states(by, id)), 0);
  const plain = await pool.connect();
  assert.equal(await states(plain, id), 0, "the login itself asked for nothing");
  const next = await enqueue(plain);
  plain.release();
  assert.equal(await subject.value("select actor from audit.effects where effect_id = $1", [next]), app.name);
});

test("the owner registers an actor and a login that speaks for it: both are on record, and nobody else may", async () => {
  const agent = `agent ${count}`;
  await assert.rejects(enqueue(client, `, actor => '${agent}'`), { code: "42501", message: /does not speak for/ });
  await owner.query("select effects.add_actor($1, 'an agent of the app', spoken_by => $2)", [agent, app.name]);
  await owner.query("select effects.add_actor($1, 'once more changes nothing', spoken_by => $2)", [agent, app.name]);
  const id = await enqueue(client, `, actor => '${agent}'`);
  const [row] = await subject.sql<object>(
    "select actor, requested_by, spoken_by from audit.effects where effect_id = $1",
    [id],
  );
  assert.deepEqual(row, { actor: agent, requested_by: app.name, spoken_by: app.name });
  assert.equal(await states(client, id), 1);
  const other = await (await subject.login(`login_other_${count}`, "service")).connect();
  assert.equal(await states(other, id), 0);
  await assert.rejects(enqueue(other, `, actor => '${agent}'`), { code: "42501" });
  assert.equal(
    await changes(`actor ${agent}`),
    `actor added by ${subject.prefix}login_owner, speaker added by ${subject.prefix}login_owner`,
  );
});

test("a task that a login opens in an actor's name is that actor's, and the login goes on acting as it there", async () => {
  const agent = `agent ${count}`;
  await owner.query("select effects.add_actor($1, 'an agent', spoken_by => $2)", [agent, app.name]);
  await client.query(`select effects.open_task('agent task ${count}', actor => $1)`, [agent]);
  await client.query(`select effects.open_task('below ${count}', parent => 'agent task ${count}', actor => $1)`, [
    agent,
  ]);
  await assert.rejects(enqueue(client, `, task => 'below ${count}'`), {
    code: "42501",
    message: /is not of the actor/,
  });
  await enqueue(client, `, task => 'below ${count}', actor => '${agent}'`);
  assert.deepEqual(
    await subject.sql("select distinct actor, opened_by from audit.tasks where name in ($1, $2)", [
      `agent task ${count}`,
      `below ${count}`,
    ]),
    [{ actor: agent, opened_by: agent }],
  );
  // Under a task of its own it delegates, and stays the one that opened it.
  await client.query(`select effects.open_task('own ${count}')`);
  await client.query(`select effects.open_task('delegated ${count}', parent => 'own ${count}', actor => $1)`, [agent]);
  assert.deepEqual(
    await subject.sql("select actor, opened_by from audit.tasks where name = $1", [`delegated ${count}`]),
    [{ actor: agent, opened_by: app.name }],
  );
  await client.query(`select effects.end_task('agent task ${count}')`);
});

test("what was asked for by right is denied at admission once the right is gone", async () => {
  const agent = `agent ${count}`;
  const other = await subject.login(`login_other_${count}`, "service");
  const otherClient = await other.connect();
  for (const login of [app, other])
    await owner.query("select effects.add_actor($1, 'an agent', spoken_by => $2)", [agent, login.name]);
  const later = ", not_before => now() + interval '1 hour'";
  const ids = {
    "its speaker was revoked": await enqueue(client, `${later}, actor => '${agent}'`),
    "its actor's role was taken away": await enqueue(client, later),
    "its other speaker stands": await enqueue(otherClient, `${later}, actor => '${agent}'`),
  };
  const { rows } = await operator.query("select effects.revoke_speaker($1, $2, 'the login leaked') as met", [
    agent,
    app.name,
  ]);
  assert.equal(rows[0].met.waiting, 2);
  await assert.rejects(enqueue(client, `, actor => '${agent}'`), { code: "42501" });
  await subject.sql(`revoke ${subject.role("service")} from ${app.name}`);
  await assert.rejects(enqueue(client), { code: "42501" });

  await subject.sql("alter table effects_ledger.request disable trigger user");
  await subject.sql("update effects_ledger.request set not_before = null where effect_id = any ($1)", [
    Object.values(ids),
  ]);
  await subject.sql("alter table effects_ledger.request enable trigger user");
  await subject.sql("select effects_ledger.requeue($1)", [Object.values(ids)]);
  const worker = await subject.work({ operations: [note.operation] }, sender.connectionString);
  const ended = async (id: string) => {
    const look = () =>
      subject.sql<{ state: string; code: string | null }>(
        "select state, denial_code as code from audit.effects where effect_id = $1",
        [id],
      );
    return waitFor("it ends", async () =>
      (await look()).find(({ state }) => state === "declined" || state === "accepted"),
    );
  };
  assert.deepEqual(await ended(ids["its speaker was revoked"]), { state: "declined", code: "actor_revoked" });
  assert.deepEqual(await ended(ids["its actor's role was taken away"]), { state: "declined", code: "actor_revoked" });
  assert.deepEqual(await ended(ids["its other speaker stands"]), { state: "accepted", code: null });
  await worker.stop();
});

test("a right that is gone is gone for an admission whose snapshot is older (case 31)", async () => {
  const agent = `agent ${count}`;
  await owner.query("select effects.add_actor($1, 'an agent', spoken_by => $2)", [agent, app.name]);
  const spoken = await enqueue(client, `, actor => '${agent}'`);
  const own = await enqueue(client);
  const admission = await subject.connect();
  const underWay = async <Result>(id: string, meanwhile: () => Promise<unknown>) => {
    await admission.query("begin isolation level serializable");
    try {
      await admission.query("select from effects_ledger.effect where effect_id = $1", [id]); // the snapshot
      await meanwhile();
      const { rows } = await admission.query<{ entitled: Result }>(
        "select (effects_ledger.lock_admission(array[$1::uuid]) #> '{effects,0,entitled}') as entitled",
        [id],
      );
      return rows[0]?.entitled;
    } finally {
      await admission.query("rollback");
    }
  };
  assert.equal(await underWay(own, async () => {}), true, "the control: nothing was taken away");
  await assert.rejects(
    underWay(spoken, () => operator.query("select effects.revoke_speaker($1, $2, 'it leaked')", [agent, app.name])),
    { code: "40001" },
  );
  assert.equal(await underWay(spoken, async () => {}), false);
  assert.equal(await underWay(own, () => subject.sql(`revoke ${subject.role("service")} from ${app.name}`)), false);
});

test("the owner lets an actor observe another's task, with what is under it, and ends that", async () => {
  const support = await subject.login(`login_support_${count}`, "service");
  const looking = await support.connect();
  await client.query(`select effects.open_task('order ${count}')`);
  await client.query(`select effects.open_task('parcel ${count}', parent => 'order ${count}')`);
  const id = await enqueue(client, `, task => 'parcel ${count}', name => 'n'`);
  const elsewhere = await enqueue(client);
  assert.equal(await states(looking, id), 0);
  await owner.query("select effects.let_observe($1, $2, 'they answer the customers')", [
    support.name,
    `order ${count}`,
  ]);
  assert.deepEqual([await states(looking, id), await states(looking, elsewhere)], [1, 0]);
  assert.equal((await looking.query(`select effect_id from effects.find('n', 'parcel ${count}')`)).rows.length, 1);
  assert.equal((await looking.query("select from effects.effects")).rows.length, 0, "they are not its own");
  await assert.rejects(enqueue(looking, `, task => 'parcel ${count}'`), { code: "42501" });
  await operator.query("select effects.revoke_observer($1, $2, 'no longer')", [support.name, `order ${count}`]);
  assert.equal(await states(looking, id), 0);
  assert.equal(
    await changes(`task order ${count}`),
    `observer added by ${subject.prefix}login_owner, observer revoked by ${subject.prefix}login_operator`,
  );
  await assert.rejects(owner.query("select effects.let_observe('nobody at all', $1, 'x')", [`order ${count}`]), {
    code: "22023",
  });
});

test("a root is opened by the owner alone, for one actor or for all; again it is the same", async () => {
  const open = (parameters: string) =>
    owner.query<{ id: string }>(`select effects.open_root_task('root ${count}', 'a team'${parameters}) as id`);
  await enqueue(client);
  const budgets = `, budgets => '[{"unit": "usd_cents", "limit": 5}]'`;
  const { rows } = await open(`, actor => '${app.name}'${budgets}`);
  assert.deepEqual((await open(`, actor => '${app.name}'${budgets}`)).rows, rows);
  await assert.rejects(open(""), { code: "PE104" });
  await assert.rejects(owner.query("select effects.open_root_task('x', 'a team', actor => 'unknown')"), {
    code: "42501",
  });
  await assert.rejects(owner.query("select effects.open_root_task('x', ' ')"), { code: "22023" });
  await enqueue(client, `, task => 'root ${count}'`);
  const other = await (await subject.login(`login_other_${count}`, "service")).connect();
  await assert.rejects(enqueue(other, `, task => 'root ${count}'`), { code: "42501" });
  const [row] = await subject.sql("select after, reason from audit.authority where object = $1", [
    `task root ${count}`,
  ]);
  assert.deepEqual(row, { after: { actor: app.name, budgets: { usd_cents: "5" } }, reason: "a team" });
});

test("names that would be mistakes are refused", async () => {
  const add = (...values: readonly (string | null)[]) =>
    owner.query("select effects.add_actor($1, $2, spoken_by => $3)", [...values]);
  await assert.rejects(add("agent", "why", "no_such_login"), { code: "22023", message: /no role/ });
  await assert.rejects(add("agent", "why", ""), { code: "22023" });
  await assert.rejects(add(app.name, "why", app.name), { code: "22023", message: /for itself/ });
  await assert.rejects(add("", "why", null), { code: "22023" });
  await assert.rejects(add("agent", "", null), { code: "22023", message: /reason/ });
  await add(`gone ${count}`, "an agent", app.name);
  await operator.query("select effects.revoke_actor($1, 'its key leaked')", [`gone ${count}`]);
  await assert.rejects(add(`gone ${count}`, "again", app.name), { code: "42501", message: /is revoked/ });
  await assert.rejects(enqueue(client, `, actor => 'gone ${count}'`), { code: "42501", message: /is revoked/ });
  await assert.rejects(operator.query("select effects.revoke_speaker($1, 'postgres', 'x')", [`gone ${count}`]), {
    code: "22023",
  });
});

test("on a strict ledger only the owner registers", async () => {
  await owner.query("select effects.set_ledger(true, 'all of it moves money')");
  try {
    await assert.rejects(enqueue(client), { code: "42501", message: `the actor ${app.name} is not registered` });
    await owner.query("select effects.add_actor($1, 'reviewed')", [app.name]);
    await enqueue(client);
  } finally {
    await owner.query("select effects.set_ledger(false, 'and no longer')");
  }
});
