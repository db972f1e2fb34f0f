/**
 * Inline effects and invocations under least privilege: a service runs its own and reports about its own, and reaches neither
 * another one's nor what a worker does (protocol, sections 8 and 11).
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { calls, INTENT, LEASED, lost, unresolved } from "../inline/calls.ts";
import { openRoleLedger } from "./with-roles.ts";

const subject = await openRoleLedger();
const shop = await subject.login("shop", "service");
const till = await subject.login("till", "service");
const shops = await shop.open();
const tills = await till.open();

const events = (run: string) =>
  subject
    .sql<{ event: string; by_role: string }>(
      "select v.event, v.by_role from audit.events v join audit.effects e using (effect_id) where e.run = $1 order by v.seq",
      [run],
    )
    .then((rows) => rows.map(({ event, by_role }) => `${event} by ${by_role}`));

test("a service runs an effect, loses one, and finds it, with no role but its own", async () => {
  const end = await shops.run("order-1").effect("charge", calls().functions);
  assert.deepEqual(end, { outcome: "accepted", proof: { receipt: "r1" }, via: "run" });
  assert.deepEqual(
    await events("order-1"),
    [...INTENT, "accepted"].map((event) => `${event} by ${shop.name}`),
  );
  const run = shops.run("order-2");
  await assert.rejects(run.effect("charge", calls({ run: lost }).functions, LEASED), unresolved);
  assert.deepEqual(await run.effect("charge", calls().functions, LEASED), { outcome: "uncertain" });
});

test("the same run and name of another service is another effect, and neither meets the other's", async () => {
  await assert.rejects(shops.run("order-3").effect("charge", calls({ run: lost }).functions, LEASED), unresolved);
  const others = calls();
  assert.equal((await tills.run("order-3").effect("charge", others.functions)).outcome, "accepted");
  assert.deepEqual([others.ran(), others.asked()], [1, 0]);
});

test("a service reports about no effect but its own, with or without a token", async () => {
  const [{ effect_id: id, token } = { effect_id: "", token: "" }] = await subject.sql<{
    effect_id: string;
    token: string;
  }>(
    `select e.effect_id, encode(f.token_hash, 'hex') as token from audit.effects e join effects_ledger.effect f using (effect_id)
      where e.run = 'order-3' and e.actor = $1`,
    [shop.name],
  );
  const client = await till.connect();
  const items = [
    { effect_id: id, via: "reconcile", outcome: "uncertain" },
    { effect_id: id, via: "run", outcome: "accepted", token_hash: token },
  ];
  for (const item of items) {
    const call = client.query("select effects_ledger.record_inline($1, 'till')", [JSON.stringify(item)]);
    await assert.rejects(call, { code: "PE109" });
  }
  const note = JSON.stringify({ effect_id: id, token_hash: token, detail: {} });
  await assert.rejects(client.query("select effects_ledger.note_inline($1, 'till')", [note]), { code: "PE109" });
  await assert.rejects(client.query("select effects_ledger.find_inline('order-3', 'charge', $1)", [shop.name]), {
    code: "42501",
  });
  assert.equal(await subject.value("select state from audit.effects where effect_id = $1", [id]), "admitted");
});

test("its own run is not accepted without the token, and nothing but its two outcomes is recorded", async () => {
  const id = await subject.value<string>("select effect_id from audit.effects where run = 'order-3' and actor = $1", [
    shop.name,
  ]);
  const client = await shop.connect();
  const record = (item: object) =>
    client.query("select effects_ledger.record_inline($1, 'shop') ->> 'state' as state", [
      JSON.stringify({ effect_id: id, ...item }),
    ]);
  const evidence = await subject.value<object>(
    `select jsonb_build_object('bytes', encode('1', 'hex'),
       'digest', encode(sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || '1'), 'hex'))`,
  );
  const forged = await record({ via: "run", outcome: "accepted", token_hash: "00", evidence });
  assert.equal(forged.rows[0]?.state, "admitted");
  for (const [via, outcome] of [
    ["reconcile", "no_effect"],
    ["reconcile", "failed"],
    ["run", "uncertain"],
    ["run", "failed"],
    ["dispatch", "accepted"],
  ]) {
    await assert.rejects(record({ via, outcome, evidence }), { code: "22023" }, `${outcome} via ${via}`);
  }
});

test("an invocation is ended by whoever started it, or by an operator, and by nobody else", async () => {
  const id = await shops.startInvocation({ host: "shop", reference: "1" });
  await assert.rejects(tills.endInvocation(id, "failed"), { code: "PE123" });
  await assert.rejects(tills.run("order-4", { invocation: id }).effect("charge", calls().functions), { code: "PE123" });
  assert.equal(await shops.endInvocation(id, "succeeded"), "succeeded");
  const left = await shops.startInvocation({ host: "shop", reference: "2" });
  const operator = await subject.login("ana", "operator");
  const client = await operator.connect();
  await client.query("select effects.end_invocation($1, 'errored')", [left]);
  assert.deepEqual(
    await subject.sql("select outcome, ended_by, actor from audit.invocations where invocation_id = $1", [left]),
    [{ outcome: "errored", ended_by: operator.name, actor: shop.name }],
  );
});

test("who is no service records no intent, and who left runs nothing more", async () => {
  const leaver = await subject.login("leaver", "service");
  const leavers = await leaver.open();
  await leavers.run("order-5").effect("charge", calls().functions);
  await subject.sql(`revoke ${subject.role("service")} from ${leaver.name}`);
  const made = calls();
  await assert.rejects(leavers.run("order-5").effect("refund", made.functions), { code: "42501" });
  assert.equal(made.ran(), 0);
});

test("where its confirmed intent is gone, a service that may not close the ledger runs nothing more, and says who may", async () => {
  await tills.run("order-6").effect("charge", calls().functions);
  const id = await subject.value("select effect_id from audit.effects where run = 'order-6'");
  // As a snapshot that is put back would leave it: for everybody but this process it never was.
  const tables = [
    "ledger.event",
    "ledger.outcome",
    "payload.evidence",
    "ledger.permit",
    "ledger.effect",
    "payload.binding",
  ];
  const holder = await subject.connect();
  await holder.query("set session_replication_role = replica");
  for (const table of [...tables, "payload.input", "ledger.request"]) {
    await holder.query(`delete from effects_${table} where effect_id = $1`, [id]);
  }
  const made = calls();
  const again = tills.run("order-6").effect("charge", made.functions);
  await assert.rejects(again, { code: "recovery_unacknowledged", hint: /an operator closes the ledger/ });
  assert.equal(made.ran(), 0);
  assert.equal((await shops.run("order-6").effect("charge", calls().functions)).outcome, "accepted");
});
