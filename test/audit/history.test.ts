/** How things stood at a moment, and checkpoints that make a deletion visible. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger, violations } from "../harness/ledger.ts";
import { makeSigner } from "../harness/signer.ts";

const subject = await openTestLedger({ sound: false });
const { operation } = countedOperation("charge_card", {
  dispatch: ({ target }) => (target.startsWith("lost") ? unknown("dead line") : accepted({ receipt: target })),
});
const ids: Record<string, string> = {};
const moments: Record<string, string> = {};
const now = () => subject.value<string>("select clock_timestamp()::text");

before(async () => {
  await subject.work({ operations: [operation] });
  moments.start = await now();
  for (const to of ["sure", "lost a", "lost b"]) {
    ids[to] = await subject.ledger.enqueue(operation, { to });
    await subject.ended(ids[to]);
  }
  moments.doubt = await now();
  await subject.sql("select effects.resolve($1, 'accepted', '{\"a\": 1}', 'the bank says so')", [ids["lost a"]]);
  await subject.sql("select effects.accept_risk($1, 'too old')", [ids["lost b"]]);
  moments.risk = await now();
  await subject.sql("select effects.resolve($1, 'no_effect', '{\"a\": 2}', 'found it')", [ids["lost b"]]);
  moments.end = await now();
});

describe("at a moment", () => {
  const at = async (moment: string | undefined, to: string) => {
    const [row] = await subject.sql<{ state: string; unresolved: boolean; resolution: string | null }>(
      "select state, unresolved, resolution from audit.effects_at($1) where effect_id = $2",
      [moment, ids[to]],
    );
    return row && [row.state, row.unresolved, row.resolution];
  };
  test("what was requested later is not there", async () => assert.equal(await at(moments.start, "sure"), undefined));
  test("what is settled now was in doubt then", async () => {
    assert.deepEqual(await at(moments.doubt, "lost a"), ["admitted", true, null]);
    assert.deepEqual(await at(moments.doubt, "sure"), ["accepted", false, null]);
  });
  test("an accepted risk stood until evidence came", async () => {
    assert.deepEqual(await at(moments.risk, "lost b"), ["uncertain", false, "risk_accepted"]);
    assert.deepEqual(await at(moments.end, "lost b"), ["uncertain", false, "evidence"]);
  });
  test("now it says what audit.effects says", async () => {
    const differ = `select count(*) from audit.effects_at(clock_timestamp()) a join audit.effects e using (effect_id)
      where (a.state, a.unresolved, a.resolution, a.outcome_via) is distinct from (e.state, e.unresolved, e.resolution, e.outcome_via)`;
    assert.equal(await subject.value(differ), "0");
  });
});

describe("a checkpoint", () => {
  const make = async () => {
    const [row] = await subject.sql<{ checkpoint_id: string; statement: Buffer }>(
      "select * from effects.make_checkpoint()",
    );
    return row ?? assert.fail();
  };

  test("covers what moved since the one before, is chained to it, and is signed once", async () => {
    const first = await make();
    assert.match(
      first.statement.toString("utf8"),
      /^pg-effects\/checkpoint\/1\n\{"authority_seq":\d+,"checkpoint":1,"effects":3,/,
    );
    const second = await make();
    assert.match(second.statement.toString("utf8"), /"checkpoint":2,"effects":0,/);
    const signer = makeSigner();
    const sign = "select effects.sign_checkpoint(1, $1, $2)";
    const keyId = "ab".repeat(16);
    await subject.sql(sign, [keyId, signer.sign(first.statement)]);
    await assert.rejects(subject.sql(sign, [keyId, signer.sign(first.statement)]), { code: "22023" });
    assert.equal(
      await subject.value("select statement from audit.checkpoints where checkpoint_id = 1"),
      first.statement.toString("hex"),
    );
    assert.deepEqual(await violations((await subject.connect()) as never), []);
  });

  test("shows that an effect was taken away as if it had never been", async () => {
    const client = await subject.connect();
    await client.query("begin; set local session_replication_role = replica");
    for (const table of [
      "effects_ledger.event",
      "effects_ledger.outcome",
      "effects_ledger.permit",
      "effects_ledger.effect",
    ]) {
      await client.query(`delete from ${table} where effect_id = $1`, [ids.sure]);
    }
    await client.query("delete from effects_payload.evidence where effect_id = $1", [ids.sure]);
    await client.query("delete from effects_payload.binding where effect_id = $1", [ids.sure]);
    await client.query("delete from effects_payload.input where effect_id = $1", [ids.sure]);
    await client.query("delete from effects_ledger.request where effect_id = $1", [ids.sure]);
    const found = await violations(client as never);
    await client.query("rollback");
    assert.deepEqual(found, ["a checkpoint's root is that of the events it covers: recomputed it is another"]);
  });
});
