/** A cost is settled once, and what is beyond the reservation is recorded as overrun (protocol, section 6; case 18). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { evidenceDigest } from "../../src/core/digest.ts";
import { attempt } from "../harness/attempt.ts";
import { GALLERY_TASK, openGallery } from "../harness/gallery.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const ids = await openGallery(subject);
const client = await subject.connect();

const EVIDENCE = Buffer.from("{}");

/** The gallery's budget, and an effect's cost. */
async function sums(effectId: string) {
  const [row] = await subject.sql<Record<string, string>>(
    `select b.reserved, b.spent, b.overrun, c.standing, c.settled, c.overrun as over, c.source
       from effects_ledger.cost c, effects_ledger.budget b join effects_ledger.task t using (task_id)
      where c.effect_id = $1 and t.name = $2`,
    [effectId, GALLERY_TASK],
  );
  return Object.values(row ?? {}).join(" ");
}

/** What a report of a dispatch looks like to the database. */
function report(effectId: string, tokenHash: string, outcome: string, settled: string, overrun: string) {
  const standing = outcome === "no_effect" ? "released" : "settled";
  const source = outcome === "no_effect" ? "none" : "measured";
  return {
    effect_id: effectId,
    via: "dispatch",
    token_hash: tokenHash,
    outcome,
    standing,
    evidence: { bytes: EVIDENCE.toString("hex"), digest: evidenceDigest(EVIDENCE).toString("hex") },
    settlements: [{ unit: "usd_cents", settled, overrun, source }],
  };
}

async function record(effectId: string, outcome: string, settled = "0", overrun = "0") {
  const token = await subject.value<string>(
    "select encode(token_hash, 'hex') from effects_ledger.effect where effect_id = $1",
    [effectId],
  );
  const item = report(effectId, token, outcome, settled, overrun);
  return subject.value<string>("select effects_ledger.record_outcomes($1, 'test') ->> $2", [
    JSON.stringify([item]),
    effectId,
  ]);
}

test("the same report again changes no sum, and another one is only kept beside the first", async () => {
  const before = await sums(ids.accepted);
  assert.equal(before, "20 7 0 settled 7 0 measured");
  assert.equal(await record(ids.accepted, "accepted", "10", "5"), "late");
  assert.equal(await record(ids.accepted, "no_effect"), "late");
  assert.equal(await sums(ids.accepted), before);
  assert.equal((await subject.ended(ids.accepted)).state, "accepted");
});

test("settling more than was reserved is an overrun beside the whole reservation", async () => {
  assert.equal(await record(ids.admitted, "accepted", "10", "25"), "recorded");
  assert.equal(await sums(ids.admitted), "10 17 25 settled 10 25 measured");
  assert.equal(await record(ids.admitted, "accepted", "10", "25"), "same");
  assert.equal(await sums(ids.admitted), "10 17 25 settled 10 25 measured");
});

test("a report without the attempt's token is refused and changes nothing", async () => {
  const before = await sums(ids.uncertain);
  const item = report(ids.uncertain, "00", "accepted", "10", "0");
  const fates = await subject.value("select effects_ledger.record_outcomes($1, 'test')", [JSON.stringify([item])]);
  assert.deepEqual(fates, { [ids.uncertain]: "refused" });
  assert.equal(await sums(ids.uncertain), before);
});

test("a cost that is settled or released is not settled again, whoever asks the functions or the table", async () => {
  const settle = (id: string, standing: string) =>
    attempt(client, "select effects_ledger.settle($1, now())", [
      JSON.stringify([
        {
          effect_id: id,
          standing,
          settlements: [{ unit: "usd_cents", settled: "1", overrun: "0", source: "measured" }],
        },
      ]),
    ]);
  assert.equal(await settle(ids.uncertain, "settled"), null, "the control: what is reserved is settled");
  for (const state of ["accepted", "no_effect", "failed", "admitted"] as const) {
    for (const standing of ["settled", "released"]) {
      assert.equal((await settle(ids[state], standing))?.constraint, "a cost is settled once", `${state} ${standing}`);
    }
  }
  for (const change of [
    "settled = 1",
    "standing = 'reserved', settled = null, source = null",
    "overrun = 100, at = now()",
    "overrun = overrun",
    "reserved = 0",
  ]) {
    const refusal = await attempt(client, `update effects_ledger.cost set ${change} where effect_id = $1`, [
      ids.accepted,
    ]);
    assert.equal(refusal?.code, "23514", change);
  }
  // Evidence of cost beyond what is settled: the one change that comes later.
  const rise = "update effects_ledger.cost set overrun = overrun + 1 where effect_id = $1";
  assert.equal(await attempt(client, rise, [ids.accepted]), null);
});

test("a cost takes no settlement beyond its reservation, and no negative amount", async () => {
  const set = (change: string) =>
    attempt(
      client,
      `update effects_ledger.cost set standing = 'settled', source = 'measured', ${change} where effect_id = $1`,
      [ids.uncertain],
    );
  assert.equal(await set("settled = 10, overrun = 9223372036854775807"), null);
  assert.equal((await set("settled = 11"))?.constraint, "what is beyond the reservation is overrun");
  assert.equal((await set("settled = -1"))?.constraint, "amounts are not negative");
  assert.equal((await set("settled = 1, overrun = -1"))?.constraint, "amounts are not negative");
  assert.equal((await set("settled = null"))?.code, "23514");
});

test("overrun that would not fit a bigint stops at the largest, and refuses no settlement", async () => {
  assert.equal(await record(ids.uncertain, "accepted", "10", "9223372036854775807"), "resolved");
  assert.equal(await sums(ids.uncertain), "0 27 9223372036854775807 settled 10 9223372036854775807 measured");
});
