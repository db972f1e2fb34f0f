/**
 * What is said about an effect while the admission of its follower is under way, in both orders, each held by locks and not
 * by time. What has returned denies every later admission, also one whose snapshot is older; what comes second waits.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import type pg from "pg";
import { decideAdmissions } from "../../src/core/admission.ts";
import { notSent } from "../../src/index.ts";
import { lockAdmission } from "../../src/store/admission.ts";
import { registeredRunning } from "../../src/store/effects.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

interface Case {
  readonly name: string;
  /** `$1` is what is followed, or what that one followed itself; `$2` is the follower. */
  readonly change: string;
  readonly code: string;
  /** It is said of what the predecessor followed, and not of the predecessor. */
  readonly above?: true;
}

/** As the holder of the attempt's token reports, late. */
const LATE = `select effects_ledger.record_outcomes(jsonb_build_array(jsonb_build_object('effect_id', e.effect_id,
    'token_hash', encode(e.token_hash, 'hex'), 'via', 'dispatch', 'outcome', 'accepted', 'reference', null, 'resolution', null,
    'evidence', jsonb_build_object('bytes', encode('{"receipt":"late"}', 'hex'),
      'digest', encode(sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || '{"receipt":"late"}'), 'hex')),
    'standing', 'settled', 'settlements', '[]'::jsonb)), 'its holder')
  from effects_ledger.effect e where e.effect_id = $1 and $2::uuid is not null`;
const submit = (source: string, says: string) =>
  `select effects.submit_evidence('${source}', null, null, $1, '${says}', '{"line": 4}') where $2::uuid is not null`;

const CASES: readonly Case[] = [
  { name: "a late report of acceptance", change: LATE, code: "predecessor_accepted" },
  { name: "a source's evidence of acceptance", change: submit("bank", "accepted"), code: "predecessor_accepted" },
  { name: "anybody's evidence of acceptance", change: submit("rumour", "accepted"), code: "predecessor_accepted" },
  { name: "a contradiction", change: submit("rumour", "failed"), code: "predecessor_contradicted" },
  { name: "the same further up the line", change: LATE, code: "predecessor_accepted", above: true },
  {
    name: "another follower in its place",
    change: "select effects.cancel($2), effects.follow($1)",
    code: "cancelled",
  },
];

const subject = await openTestLedger();
const { ledger } = subject;
const { operation } = countedOperation("send_note", { dispatch: () => notSent({ code: "refused_connection" }) });
/** By case and order. */
const effects = new Map<string, { readonly about: string; readonly follower: string }>();
const NAMES = CASES.flatMap(({ name }) => [1, 2].map((order) => `${name} ${order}`));

before(async () => {
  const worker = await subject.work({ operations: [operation] });
  await subject.sql("select effects.add_source('bank', 'its statements', authoritative => true)");
  await subject.sql("select effects.add_source('rumour', 'a mailbox that nobody checks')");
  const followed = new Map<string, { readonly about: string; readonly predecessor: string }>();
  for (const { name, above } of CASES) {
    for (const order of [1, 2]) {
      const about = await ledger.enqueue(operation, { to: name });
      assert.equal((await subject.ended(about)).state, "no_effect");
      const predecessor = above ? await ledger.follow(about) : about;
      assert.equal((await subject.ended(predecessor)).state, "no_effect");
      followed.set(`${name} ${order}`, { about, predecessor });
    }
  }
  await subject.sql("select effects.pause('all', null, 'none is admitted while they are made')");
  for (const [name, { about, predecessor }] of followed) {
    effects.set(name, { about, follower: await ledger.follow(predecessor) });
  }
  await waitFor("all are prepared and paused", async () => {
    const waiting = await subject.value<string>("select count(*) from audit.effects where waiting_for = 'paused'");
    return waiting === String(NAMES.length);
  });
  await worker.stop();
  await subject.sql("select effects.resume('all', null, 'they are made')");
});

for (const { name, change, code } of CASES) {
  test(`${name} that returned first denies an admission whose snapshot is older`, async () => {
    const { about, follower } = effects.get(`${name} 1`) ?? assert.fail(name);
    const admission = await subject.connect();
    await admission.query("begin isolation level serializable");
    await admission.query("select"); // its snapshot is taken here
    await subject.sql(change, [about, follower]);
    await assert.rejects(lock(admission, follower), { code: "40001" });
    await admission.query("rollback");

    await admission.query("begin isolation level serializable");
    const { facts } = await lock(admission, follower);
    const [verdict] = decideAdmissions(facts);
    await admission.query("rollback");
    if (verdict?.verdict === "already") {
      const standing = await ledger.observe(follower);
      assert.ok(standing?.state === "declined" && standing.code === code, JSON.stringify(standing));
    } else {
      assert.ok(verdict?.verdict === "declined", JSON.stringify(verdict));
      assert.deepEqual([verdict.code, verdict.reason], [code, "denied"]);
      assert.deepEqual(verdict.detail, { predecessor: about });
    }
  });

  test(`${name} that comes second waits for the admission`, async () => {
    const { about, follower } = effects.get(`${name} 2`) ?? assert.fail(name);
    const admission = await subject.connect();
    await admission.query("begin isolation level serializable");
    const { facts } = await lock(admission, follower);
    assert.equal(decideAdmissions(facts)[0]?.verdict, "admitted");
    const changing = await subject.connect();
    const { pid } = (await changing.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0] ?? assert.fail();
    const changed = changing.query(change, [about, follower]);
    await waitFor("the change waits for a lock", async () => {
      const wait = await subject.value<string>("select wait_event_type from pg_stat_activity where pid = $1", [pid]);
      return wait === "Lock";
    });
    await admission.query("commit");
    await changed;
  });
}

test("of two who follow the same at once, the second waits and is refused; one with an older snapshot fails", async () => {
  const id = await declinedOne();
  const [first, second, older] = [await subject.connect(), await subject.connect(), await subject.connect()];
  const follow = `select effects.enqueue('send_note', '{"to": "once"}', follows => $1)`;
  await older.query("begin isolation level repeatable read");
  await older.query("select count(*) from audit.effects"); // its snapshot is taken here
  await first.query("begin");
  await first.query(follow, [id]);
  const { pid } = (await second.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0] ?? assert.fail();
  const refused = assert.rejects(second.query(follow, [id]), { code: "PE126" });
  await waitFor("the second one waits", async () => {
    const wait = await subject.value<string>("select wait_event_type from pg_stat_activity where pid = $1", [pid]);
    return wait === "Lock";
  });
  await first.query("commit");
  await refused;
  await assert.rejects(older.query(follow, [id]), { code: "40001" });
  await older.query("rollback");
});

test("a follower that was requested before the evidence came is not requested after it", async () => {
  const id = await declinedOne();
  const [says, asks] = [await subject.connect(), await subject.connect()];
  await says.query("begin");
  await says.query(submit("rumour", "accepted"), [id, id]);
  const { pid } = (await asks.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0] ?? assert.fail();
  const refused = assert.rejects(asks.query("select effects.follow($1)", [id]), { code: "PE107" });
  await waitFor("the request waits", async () => {
    const wait = await subject.value<string>("select wait_event_type from pg_stat_activity where pid = $1", [pid]);
    return wait === "Lock";
  });
  await says.query("commit");
  await refused;
});

/** One that no worker ever took. */
async function declinedOne(): Promise<string> {
  const id = await ledger.enqueue(operation, { to: "nobody" });
  assert.equal(await ledger.cancel(id), "declined");
  return id;
}

/** As the worker that bound it would. */
async function lock(client: pg.Client, effectId: string) {
  const running = await registeredRunning(client, effectId);
  assert.ok(running);
  return lockAdmission(client, new Map([[effectId, running]]));
}
