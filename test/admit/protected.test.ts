/** A protected operation: what it wants before anything is admitted, and the bounds that its policies set. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const gates = new Map<string, ReturnType<typeof latch>>();
/** What it does is told by its target: `lost …` is never answered, `held …` waits for its gate. */
const charge = countedOperation("charge_card", {
  contract: { targetDelimiter: "/", lane: ({ to }) => to.split("/")[0] ?? to, dispatchTimeoutMs: 20_000 },
  dispatch: async ({ target }) => {
    if (target.startsWith("lost")) return unknown("the line went dead");
    await gates.get(target)?.opened;
    return accepted({ receipt: target });
  },
  reconcile: async ({ target }) => accepted({ receipt: target }),
});
const plain = countedOperation("note_down");

const settled = async (id: string) => {
  const standing = await subject.ended(id);
  return standing.state === "declined" ? `${standing.reason} ${standing.code}` : standing.state;
};
const waits = (id: string, code: string) =>
  waitFor(`it waits: ${code}`, async () => {
    const row = "select denial_code from audit.effects where effect_id = $1 and state = 'prepared'";
    return (await subject.value<string>(row, [id])) === code;
  });
const policy = (name: string, given: string, task = name) =>
  subject.sql(
    `select effects.add_policy($1, 'charge_card', 1, 'test', task => $2, costs => '[{"unit": "usd_cents", "limit": "100"}]'${given})`,
    [name, task],
  );
const task = (name: string) => subject.ledger.openTask(name, { budgets: { usd_cents: 1_000n } });
const enqueue = (to: string, name: string, cents = 5) =>
  subject.ledger.enqueue(charge.operation, { to, cents }, { task: name });

before(async () => {
  await subject.work({ operations: [charge.operation, plain.operation] });
  await subject.sql("select effects.protect_operation('charge_card', 'it moves money')");
});

test("until an implementation is allowed nothing is admitted, and nothing is prepared either", async () => {
  await task("early");
  assert.equal(await settled(await enqueue("early/1", "early")), "denied operation_not_allowed");
  await assert.rejects(
    subject.sql("select effects.allow_operation('charge_card', 1, 'reviewed', implementation => 'another')"),
    { code: "22023" },
  );
  await subject.sql("select effects.allow_operation('charge_card', 1, 'reviewed')");
});

test("without a policy that could cover it, it is not even prepared", async () => {
  await task("nobody");
  const id = await enqueue("nobody/1", "nobody");
  assert.equal(await settled(id), "denied policy_missing");
  assert.equal(await subject.value("select prepared_at from audit.effects where effect_id = $1", [id]), null);
});

test("a policy covers its targets, its cost and its task, and nothing beside", async () => {
  await task("shop");
  await policy("shop", ", target => 'cards/', target_match => 'prefix'");
  assert.equal(await settled(await enqueue("cards/1", "shop", 100)), "accepted");
  assert.equal(await settled(await enqueue("cards/1", "shop", 101)), "denied policy_missing");
  assert.equal(await settled(await enqueue("cars/1", "shop")), "denied policy_missing");
  await task("neighbour");
  assert.equal(await settled(await enqueue("cards/1", "neighbour")), "denied policy_missing");
});

test("a beginning of targets ends at the delimiter, and no two policies cover the same", async () => {
  await task("alike");
  for (const target of ["cards", "cards/4"]) {
    await assert.rejects(policy("prefix", `, target => '${target}', target_match => 'prefix'`, "alike"), {
      code: "22023",
    });
  }
  await policy("alike", "");
  await assert.rejects(policy("alike again", "", "alike"), { code: "PE112" });
  await subject.sql("select effects.revoke_policy('alike', 'another one comes')");
  await policy("alike again", "", "alike");
});

test("admissions are counted, and the last one is the last", async () => {
  await task("twice");
  await policy("twice", ", admissions_max => 2");
  const ids = await Promise.all([1, 2, 3, 4].map((each) => enqueue(`twice${each}/x`, "twice")));
  const ends = await Promise.all(ids.map(settled));
  assert.deepEqual(ends.sort(), ["accepted", "accepted", "denied policy_exhausted", "denied policy_exhausted"]);
});

test("a unit of the cost that no task budgets is budget_missing", async () => {
  await subject.ledger.openTask("unbudgeted");
  await policy("unbudgeted", "");
  assert.equal(await settled(await enqueue("unbudgeted/1", "unbudgeted")), "denied budget_missing");
});

test("a bound on open effects holds the next one until doubt is settled", async () => {
  await task("doubt");
  await policy("doubt", ", open_max => 1");
  const lost = await enqueue("lost/1", "doubt");
  await subject.ended(lost);
  const next = await enqueue("sure/1", "doubt");
  await waits(next, "doubt_limit");
  await subject.ledger.reconcile({ effect: lost, deadlineMs: 20_000 });
  await subject.ended(next);
  assert.equal(await settled(next), "accepted");
});

test("a lane holds one open effect; the next goes when it is free, and other lanes go on", async () => {
  await task("lanes");
  await policy("lanes", "");
  gates.set("lane1/a", latch());
  const first = await enqueue("lane1/a", "lanes");
  await waitFor("the first one is out", () => charge.hits("lane1/a") === 1);
  const second = await enqueue("lane1/b", "lanes");
  await waits(second, "lane_busy");
  assert.equal(await settled(await enqueue("lane2/a", "lanes")), "accepted");
  assert.equal(charge.hits("lane1/b"), 0);
  gates.get("lane1/a")?.open();
  assert.equal(await settled(first), "accepted");
  assert.equal(await settled(second), "accepted");
});

test("what was prepared as ordinary is bound again when its operation becomes protected", async () => {
  await subject.sql("select effects.pause('operation', 'note_down', 'it waits')");
  const id = await subject.ledger.enqueue(plain.operation, { to: "somebody" });
  await waits(id, "paused");
  await subject.sql("select effects.allow_operation('note_down', 1, 'reviewed')");
  await subject.sql("select effects.add_policy('notes', 'note_down', 1, 'notes are fine')");
  await subject.sql("select effects.protect_operation('note_down', 'it matters after all')"); // last: it decides at once
  await subject.sql("select effects.resume('operation', 'note_down', 'over')");
  assert.equal(await settled(id), "accepted");
  const [row] = await subject.sql("select policy, admitted_under from audit.effects where effect_id = $1", [id]);
  assert.deepEqual(row, { policy: "notes", admitted_under: "policy" });
});

test("on a strict ledger every operation is protected, and none that is new is allowed", async () => {
  await subject.sql("select effects.set_ledger(true, 'the auditors ask for it')");
  const fresh = countedOperation("send_fresh");
  await subject.work({ operations: [fresh.operation] });
  assert.equal(
    await settled(await subject.ledger.enqueue(fresh.operation, { to: "x" })),
    "denied operation_not_allowed",
  );
  await subject.sql("select effects.set_ledger(false, 'tried')");
  assert.equal(await settled(await subject.ledger.enqueue(fresh.operation, { to: "x" })), "accepted");
});
