/**
 * Hosts killed at each point of an inline effect (protocol, section 13). Hits are counted at the recipient: whatever the
 * moment, it gets one request at most, and what the next call finds is what the recipient has.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { COMMITTED, startPostgresProxy } from "../harness/postgres-proxy.ts";
import { startRecipient } from "../harness/recipient.ts";
import { waitFor } from "../harness/wait.ts";
import { calls, INTENT, openHost } from "./calls.ts";
import { startHostChild } from "./host-child.ts";

const subject = await openTestLedger();
const { effect, events } = openHost(subject);
const recipient = await startRecipient(subject);
const { proxy, connectionString } = await startPostgresProxy(subject);

const INTENT_COMMIT = contains(/admit_inline[\s\S]*commit\0/);
const RECORD = contains("record_inline");

/** What a call afterwards finds at the recipient: its receipt if anything arrived. */
function afterwards(path: string) {
  return calls({ reconcile: () => (recipient.hits(path) > 0 ? { receipt: "r1" } : null) });
}

/** A child that has got as far as the fault, killed there. */
async function killedAt(path: string, reached: Promise<void>, asks?: string): Promise<void> {
  const child = await startHostChild(subject, connectionString);
  void child.effect({
    name: path,
    runs: recipient.url(path),
    runTimeoutMs: 0,
    ...(asks === undefined ? {} : { asks: recipient.url(asks) }),
  });
  await reached;
  await child.kill();
}

test("killed before the intent's COMMIT arrived: nothing is recorded, and the next call runs", async () => {
  const held = proxy.holdRequest({ match: INTENT_COMMIT });
  await killedAt("before", held.reached);
  held.drop();
  await waitFor("its transaction is gone", async () => {
    const open =
      "select count(*) from pg_stat_activity where application_name = 'pg-effects' and xact_start is not null";
    return (await subject.value(open)) === "0";
  });
  assert.deepEqual(await events("before"), []);
  const next = calls();
  assert.equal((await effect("before", next)).outcome, "accepted");
  assert.deepEqual([next.ran(), next.asked(), recipient.hits("before")], [1, 0, 0]);
});

test("killed after the intent's COMMIT, before run is called: nothing arrived, and nothing will", async () => {
  const unheard = proxy.holdReply({ to: INTENT_COMMIT, after: COMMITTED });
  await killedAt("unheard", unheard.reached);
  assert.deepEqual(await events("unheard"), INTENT);
  const next = afterwards("unheard");
  assert.deepEqual(await effect("unheard", next), { outcome: "uncertain" });
  assert.deepEqual([next.ran(), next.asked(), recipient.hits("unheard")], [0, 1, 0]);
});

test("killed in run, when the recipient has acted: the next call finds its receipt", async () => {
  await killedAt("in-run", recipient.holdReply("in-run").reached);
  assert.deepEqual(await events("in-run"), INTENT);
  const next = afterwards("in-run");
  assert.deepEqual(await effect("in-run", next), { outcome: "accepted", proof: { receipt: "r1" }, via: "reconcile" });
  assert.deepEqual([next.ran(), next.asked(), recipient.hits("in-run")], [0, 1, 1]);
});

test("killed between run and its record: the next call finds the receipt", async () => {
  const record = proxy.holdRequest({ match: RECORD });
  await killedAt("unrecorded", record.reached);
  record.drop();
  assert.deepEqual(await events("unrecorded"), INTENT);
  const next = afterwards("unrecorded");
  assert.deepEqual((await effect("unrecorded", next)).outcome, "accepted");
  assert.deepEqual([next.ran(), next.asked(), recipient.hits("unrecorded")], [0, 1, 1]);
});

test("killed after the record's COMMIT, before it heard of it: the next call is told the proof", async () => {
  const heard = proxy.holdReply({ to: contains(/record_inline[\s\S]*commit\0/), after: COMMITTED });
  await killedAt("recorded", heard.reached);
  const next = afterwards("recorded");
  assert.deepEqual(await effect("recorded", next), { outcome: "accepted", proof: { receipt: "r1" }, via: "run" });
  assert.deepEqual([next.ran(), next.asked(), recipient.hits("recorded")], [0, 0, 1]);
});

test("killed in reconcile: nothing is recorded, and the next call asks again", async () => {
  await killedAt("asked", recipient.holdReply("asked").reached);
  await killedAt("asked", recipient.holdReply("asking").reached, "asking");
  assert.deepEqual(await events("asked"), INTENT);
  const next = afterwards("asked");
  assert.equal((await effect("asked", next)).outcome, "accepted");
  assert.deepEqual([next.ran(), next.asked(), recipient.hits("asked"), recipient.hits("asking")], [0, 1, 1, 1]);
});

test("killed between reconcile and its record: the next call asks again", async () => {
  await killedAt("found", recipient.holdReply("found").reached);
  const record = proxy.holdRequest({ match: RECORD });
  await killedAt("found", record.reached, "finding");
  record.drop();
  assert.deepEqual(await events("found"), INTENT);
  const next = afterwards("found");
  assert.equal((await effect("found", next)).outcome, "accepted");
  assert.deepEqual([next.ran(), next.asked(), recipient.hits("found"), recipient.hits("finding")], [0, 1, 1, 1]);
});
