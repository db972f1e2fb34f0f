/** Approvals end to end: what waits for one, what counts as one, and what takes it away. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { makeSigner, type Signer } from "../harness/signer.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const charge = countedOperation("charge_card", { contract: { expiresAfterMs: 600_000 } });
const people = { ana: makeSigner(), ben: makeSigner(), cyd: makeSigner() };
const keys = new Map<Signer, string>();

before(async () => {
  await subject.work({ operations: [charge.operation] });
  await subject.sql("select effects.protect_operation('charge_card', 'it moves money')");
  await subject.sql("select effects.allow_operation('charge_card', 1, 'reviewed')");
  for (const [name, signer] of Object.entries(people)) {
    keys.set(
      signer,
      await subject.value<string>("select effects.add_approver($1, $2, 'joined')", [name, signer.publicKey]),
    );
  }
});

let count = 0;
/** A task of its own with a budget and a policy that wants approvals, and an effect that waits under it. */
async function waiting({ needed = 1, approvers = ["ana", "ben"] } = {}) {
  const name = `shop ${++count}`;
  await subject.ledger.openTask(name, { budgets: { usd_cents: 10_000n } });
  await subject.sql(
    `select effects.add_policy($1, 'charge_card', 1, 'charges of a shop', task => $1, approvals_needed => $2,
       approvers => $3, costs => '[{"unit": "usd_cents", "limit": "5000"}]')`,
    [name, needed, approvers],
  );
  const id = await subject.ledger.enqueue(charge.operation, { to: name, cents: 4_000 }, { task: name });
  await waitFor("it waits for approval", async () => (await subject.ledger.observe(id))?.state === "prepared");
  return { id, name, to: name };
}

/** A worker has looked at what was submitted, and left it waiting. */
const lookedAt = (id: string) =>
  waitFor("it waits again", () =>
    subject.value<boolean>(
      "select exists (select from effects_queue.jobs where key = $1 and run_at > now() + interval '2 seconds')",
      [id],
    ),
  );

const statementOf = (id: string) => subject.value<Buffer>("select effects.approval_statement($1)", [id]);
const submit = (statement: Buffer, signer: Signer, signature = signer.sign(statement)) =>
  subject.value<string>("select effects.submit_approval($1, $2, $3)", [statement, keys.get(signer), signature]);

test("an effect waits, is approved with a key, and runs once; each is found in SQL", async () => {
  const { id, to } = await waiting();
  assert.equal(charge.hits(to), 0);
  const approval = await submit(await statementOf(id), people.ana);
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(charge.hits(to), 1);
  const [row] = await subject.sql<{ approver: string; counted: boolean; admitted_under: string; policy: string }>(
    `select a.approver, a.counted, e.admitted_under, e.policy from audit.approvals a join audit.effects e using (effect_id)
      where a.approval_id = $1`,
    [approval],
  );
  assert.deepEqual(row, { approver: "ana", counted: true, admitted_under: "policy", policy: to });
});

test("two of two are needed, and one person twice is one", async () => {
  const { id, to } = await waiting({ needed: 2 });
  await submit(await statementOf(id), people.ana);
  await submit(await statementOf(id), people.ana);
  await lookedAt(id);
  assert.equal((await subject.ledger.observe(id))?.state, "prepared");
  await submit(await statementOf(id), people.ben);
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(charge.hits(to), 1);
});

test("a signature that is not the key's is kept and never counts", async () => {
  const { id, to } = await waiting();
  const statement = await statementOf(id);
  const approval = await submit(statement, people.ana, people.ben.sign(statement));
  await lookedAt(id);
  assert.equal(await subject.value("select waiting_for from audit.effects where effect_id = $1", [id]), "approval");
  assert.equal(charge.hits(to), 0);
  assert.equal(await subject.value("select counted from audit.approvals where approval_id = $1", [approval]), false);
  await submit(await statementOf(id), people.ana);
  assert.equal((await subject.ended(id)).state, "accepted");
});

const REFUSED: Readonly<Record<string, (statement: string) => string>> = {
  "of another digest": (statement) =>
    statement.replace(/"digest":"./, (found) => `${found.slice(0, -1)}${found.endsWith("0") ? "1" : "0"}`),
  "of another ledger": (statement) =>
    statement.replace(/"ledger":"[^"]+"/, '"ledger":"00000000-0000-4000-8000-000000000000"'),
  "of another epoch": (statement) =>
    statement.replace(/"epoch":"[^"]+"/, '"epoch":"00000000-0000-4000-8000-000000000000"'),
  "of another operation": (statement) => statement.replace('"charge_card"', '"refund_card"'),
  "of another version": (statement) => statement.replace('"version":1', '"version":2'),
  "that has expired": (statement) => statement.replace(/"expires_at_ms":\d+/, '"expires_at_ms":1'),
  "without its first line": (statement) => statement.replace("pg-effects/approval/1\n", ""),
  "cut short": (statement) => statement.slice(0, -1),
  // Kept, it would break audit.approval_costs for everybody.
  "whose maximum cost is no amount": (statement) => statement.replace('"4000"', '"abc"'),
  "whose maximum cost is beyond every amount": (statement) => statement.replace('"4000"', '"9223372036854775808"'),
};
for (const [what, change] of Object.entries(REFUSED)) {
  test(`a statement ${what} is refused, and the true one is still good`, async () => {
    const { id, to } = await waiting();
    const statement = await statementOf(id);
    const changed = Buffer.from(change(statement.toString("utf8")));
    assert.notDeepEqual(changed, statement);
    await assert.rejects(submit(changed, people.ana), { code: "PE117" });
    assert.equal(charge.hits(to), 0);
    await submit(statement, people.ana);
    assert.equal((await subject.ended(id)).state, "accepted");
  });
}

test("keys in another order are the same statement", async () => {
  const { id } = await waiting();
  const [prefix, body] = (await statementOf(id)).toString("utf8").split("\n");
  const reordered = Object.fromEntries(Object.entries(JSON.parse(body ?? "") as object).reverse());
  await submit(Buffer.from(`${prefix}\n${JSON.stringify(reordered)}`), people.ana);
  assert.equal((await subject.ended(id)).state, "accepted");
});

test("an approval below the maximum cost does not count", async () => {
  const { id, to } = await waiting();
  const lower = (await statementOf(id)).toString("utf8").replace('"usd_cents":"4000"', '"usd_cents":"3999"');
  await submit(Buffer.from(lower), people.ana);
  await submit(await statementOf(id), people.ben);
  assert.equal((await subject.ended(id)).state, "accepted");
  const counted = await subject.sql<{ approver: string }>(
    "select approver from audit.approvals where effect_id = $1 and counted",
    [id],
  );
  assert.deepEqual(counted, [{ approver: "ben" }]);
  assert.equal(charge.hits(to), 1);
});

test("a person whom the policy does not name, and an unknown key, are refused", async () => {
  const { id } = await waiting();
  const statement = await statementOf(id);
  await assert.rejects(submit(statement, people.cyd), { code: "PE117" });
  await assert.rejects(submit(statement, makeSigner()), { code: "PE115" });
});

test("the requester is excluded, unless the policy says otherwise", async () => {
  const me = await subject.value<string>("select session_user::text");
  const signer = makeSigner();
  keys.set(
    signer,
    await subject.value<string>("select effects.add_approver($1, $2, 'joined')", [me, signer.publicKey]),
  );
  const { id } = await waiting({ approvers: [me] });
  await assert.rejects(submit(await statementOf(id), signer), { code: "PE117" });
});

test("an approval that was revoked stays revoked, whoever submits its bytes again", async () => {
  const { id, to } = await waiting({ needed: 2 });
  const statement = await statementOf(id);
  const approval = await submit(statement, people.ana);
  assert.equal(await submit(statement, people.ana), approval);
  await subject.sql("select effects.revoke_approval($1, 'a mistake')", [approval]);
  await assert.rejects(submit(statement, people.ana), { code: "PE117" });
  await submit(await statementOf(id), people.ben);
  assert.equal((await subject.ledger.observe(id))?.state, "prepared");
  await submit(await statementOf(id), people.ana);
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(charge.hits(to), 1);
});

test("a refusal declines, and says who and why", async () => {
  const { id, to } = await waiting();
  await subject.sql("select effects.refuse($1, 'not this customer')", [id]);
  const standing = await subject.ended(id);
  assert.ok(standing.state === "declined");
  assert.deepEqual([standing.reason, standing.code], ["refused", "approval_refused"]);
  assert.equal(charge.hits(to), 0);
  await assert.rejects(statementOf(id), { code: "PE116" });
});

test("`approved: true` in an input is data", async () => {
  const { id, to } = await waiting();
  const given = await subject.value<string>(
    `select effects.enqueue('charge_card', '{"to": "x", "approved": true}', task => $1)`,
    [to],
  );
  const standing = await subject.ended(given);
  assert.ok(standing.state === "declined" && standing.code === "input_invalid");
  await subject.sql("select effects.refuse($1, 'no longer wanted')", [id]);
});
