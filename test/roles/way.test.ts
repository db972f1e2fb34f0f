/** A ledger under logins of least privilege, from the request to the auditor's look (protocol, section 11). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { makeSigner } from "../harness/signer.ts";
import { waitFor } from "../harness/wait.ts";
import { openRoleLedger } from "./with-roles.ts";

const subject = await openRoleLedger();
const note = countedOperation("send_note", {
  dispatch: ({ target }) => (target === "doubted" ? unknown("the line went dead") : accepted({ receipt: target })),
  reconcile: async ({ target }) => accepted({ receipt: target }),
});
const charge = countedOperation("charge_card");

const shop = await subject.login("login_shop", "service");
const bank = await subject.login("login_bank", "service");
const owner = await (await subject.login("login_owner", "owner")).connect();
const operator = await (await subject.login("login_operator", "operator")).connect();
const approver = await (await subject.login("login_approver", "approver")).connect();
const auditor = await (await subject.login("login_auditor", "auditor")).connect();
const shopLedger = await shop.open();

before(async () => {
  const sender = await subject.login("login_worker", "worker");
  await subject.work({ operations: [note.operation, charge.operation] }, sender.connectionString);
});

test("a worker that is a member of its role and of nothing else runs an effect from request to accepted", async () => {
  const id = await shopLedger.enqueue(note.operation, { to: "ana" }, { name: "order/1/note" });
  const standing = await shopLedger.outcome(note.operation, id, { timeoutMs: 20_000 });
  assert.equal(standing.state, "accepted");
  assert.equal(note.hits("ana"), 1);
  const [row] = await subject.sql<object>(
    "select actor, requested_by, spoken_by from audit.effects where effect_id = $1",
    [id],
  );
  assert.deepEqual(row, { actor: shop.name, requested_by: shop.name, spoken_by: null });
  assert.equal(
    await subject.value(
      "select string_agg(distinct by_role, ' ') from audit.events where effect_id = $1 and by_worker is not null",
      [id],
    ),
    subject.role("schema").replace("schema", "login_worker"),
  );
});

test("an effect under a task with a budget, opened by the service, is paid from what the owner set", async () => {
  await shopLedger.openTask("orders", { budgets: { usd_cents: 100n } });
  await owner.query("select effects.set_budget('orders', 'usd_cents', '1000', 'a good month')");
  const id = await shopLedger.enqueue(note.operation, { to: "ben", cents: 500 }, { task: "orders" });
  assert.equal((await shopLedger.outcome(note.operation, id, { timeoutMs: 20_000 })).state, "accepted");
  assert.equal(await subject.value("select spent from audit.budgets where task_path = 'default > orders'"), "500");
});

test("what is in doubt is asked about by the operator, and a worker finds it", async () => {
  const id = await shopLedger.enqueue(note.operation, { to: "doubted" });
  const standing = await shopLedger.outcome(note.operation, id, { timeoutMs: 20_000 });
  assert.ok(standing.state === "admitted" && standing.unresolved);
  await operator.query(
    "select effects.request_reconciliation(clock_timestamp() + interval '1 minute', effect_id => $1)",
    [id],
  );
  await waitFor("the reconciliation finds it", async () => (await shopLedger.observe(id))?.state === "accepted");
});

test("a protected operation is allowed by its owner, approved by an approver, and run", async () => {
  const signer = makeSigner();
  await owner.query("select effects.protect_operation('charge_card', 'it moves money')");
  await owner.query("select effects.allow_operation('charge_card', 1, 'reviewed')");
  const key = await owner.query<{ id: string }>("select effects.add_approver('ana', $1, 'joined') as id", [
    signer.publicKey,
  ]);
  await owner.query(
    "select effects.open_root_task('charges', 'the shop', budgets => '[{\"unit\": \"usd_cents\", \"limit\": 1000}]')",
  );
  await owner.query(
    `select effects.add_policy('charges', 'charge_card', 1, 'charges of the shop', task => 'charges', approvals_needed => 1,
       approvers => '{ana}', costs => '[{"unit": "usd_cents", "limit": "500"}]')`,
  );
  const id = await shopLedger.enqueue(charge.operation, { to: "card", cents: 400 }, { task: "charges" });
  const waiting = await waitFor("it awaits approval", async () => {
    const { rows } = await approver.query<{ effect_id: string; target: string }>(
      "select effect_id, target from effects.awaiting_approval",
    );
    return rows[0];
  });
  assert.deepEqual(waiting, { effect_id: id, target: "card" });
  const { rows } = await approver.query<{ statement: Buffer }>("select effects.approval_statement($1) as statement", [
    id,
  ]);
  const statement = rows[0]?.statement as Buffer;
  await approver.query("select effects.submit_approval($1, $2, $3)", [
    statement,
    key.rows[0]?.id,
    signer.sign(statement),
  ]);
  assert.equal((await shopLedger.outcome(charge.operation, id, { timeoutMs: 20_000 })).state, "accepted");
});

test("a service sees its own effects, by id, by name and in the view, and no other service's", async () => {
  const id = await shopLedger.enqueue(note.operation, { to: "mine" }, { name: "mine" });
  const seen = async (login: typeof shop) => {
    const client = await login.connect();
    const { rows: observed } = await client.query("select state from effects.observe($1)", [id]);
    const { rows: found } = await client.query("select effect_id from effects.find('mine')");
    const { rows: listed } = await client.query<{ others: number }>(
      "select count(*) filter (where effect_id = $1)::int as own, count(*) filter (where effect_id <> $1)::int as others from effects.effects",
      [id],
    );
    return { observed: observed.length, found, listed: listed[0] };
  };
  const own = await subject.value<string>("select count(*) from audit.effects where actor = $1", [shop.name]);
  assert.deepEqual(await seen(shop), {
    observed: 1,
    found: [{ effect_id: id }],
    listed: { own: 1, others: Number(own) - 1 },
  });
  assert.deepEqual(await seen(bank), { observed: 0, found: [], listed: { own: 0, others: 0 } });
  assert.equal((await operator.query("select state from effects.observe($1)", [id])).rows.length, 1);
});

test("an auditor reads every view of audit, and audit.violations is empty to it", async () => {
  const views = await subject.sql<{ view: string }>(
    "select viewname as view from pg_views where schemaname = 'audit' order by 1",
  );
  assert.ok(views.length >= 30);
  for (const { view } of views) await auditor.query(`select * from audit.${view} limit 5`);
  const { rows } = await auditor.query<{ effects: string; violations: string }>(
    "select (select count(*) from audit.effects) as effects, (select count(*) from audit.violations) as violations",
  );
  assert.deepEqual(rows[0], {
    effects: await subject.value("select count(*) from effects_ledger.effect"),
    violations: "0",
  });
});
