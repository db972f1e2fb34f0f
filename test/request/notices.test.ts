/** What is put into an inbox, by whom it is taken, and that it is gone if and only if the taker's transaction stands. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type pg from "pg";
import { evidenceDigest } from "../../src/core/digest.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { latch, waitFor } from "../harness/wait.ts";
import { openRoleLedger } from "../roles/with-roles.ts";

const subject = await openRoleLedger();
const { ledger } = subject;
const held = latch();
const { operation } = countedOperation("send_note", {
  contract: { reference: ({ receipt }) => receipt, dispatchTimeoutMs: 5_000 },
  dispatch: ({ target }) =>
    target.startsWith("lost")
      ? { report: "unknown", reason: "lost" }
      : { report: "accepted", proof: { receipt: target } },
});
const silent = countedOperation("send_slowly", {
  contract: { dispatchTimeoutMs: 500 },
  dispatch: async ({ target }) => {
    await held.opened;
    return { report: "accepted", proof: { receipt: target } };
  },
}).operation;
const charge = countedOperation("charge_card").operation;
const me = await subject.value<string>("select session_user");
const a = await subject.login("a", "service");
const b = await subject.login("b", "service");

interface Row {
  readonly effect_id: string;
  readonly seq: number;
  readonly name: string | null;
  readonly operation: string;
  readonly state: string;
  readonly unresolved: boolean;
  readonly waiting_for: string | null;
  readonly resolution: string | null;
  readonly reference: string | null;
  readonly at: Date;
}

before(async () => {
  await subject.work({ operations: [operation, silent, charge] });
});

const TAKE = "select * from effects.take_notices($1, $2)";
const take = (inbox: string, max = 100) => subject.sql<Row>(TAKE, [inbox, max]);
const takeOn = async (client: pg.Client, inbox: string, max = 100) =>
  (await client.query<Row>(TAKE, [inbox, max])).rows;
/** What an effect's notices are about, in their order. */
const about = (id: string) =>
  subject.value<string | null>(
    "select string_agg(about, ' ' order by notice_id) from effects_ledger.notice where effect_id = $1",
    [id],
  );
const left = (inbox: string) => subject.value("select count(*) from effects_ledger.notice where inbox = $1", [inbox]);
const ids = (rows: readonly Row[]) => rows.map(({ effect_id }) => effect_id);

/** An effect that has ended, with its notices still there. */
async function ended(inbox: string, to: string): Promise<string> {
  const id = await ledger.enqueue(operation, { to }, { notify: inbox });
  await subject.ended(id);
  return id;
}

/** What a reconciliation could report about an effect, straight into the record. */
async function report(id: string, outcome: string): Promise<string> {
  const bytes = Buffer.from(JSON.stringify({ outcome }));
  const evidence = { bytes: bytes.toString("hex"), digest: evidenceDigest(bytes).toString("hex") };
  const item = { effect_id: id, via: "reconcile", outcome, standing: "settled", evidence, settlements: [] };
  return subject.value("select effects_ledger.record_outcomes($1, 'test') ->> $2", [JSON.stringify([item]), id]);
}

describe("a notice is given of", () => {
  test("an outcome, and says where the effect stands", async () => {
    const id = await ledger.enqueue(operation, { to: "a" }, { notify: "outcomes", name: "outcome" });
    await subject.ended(id);
    assert.equal(await about(id), "outcome");
    const [row, ...rest] = await take("outcomes");
    assert.ok(row && rest.length === 0 && row.at instanceof Date);
    const { at, ...stands } = row;
    assert.deepEqual(stands, {
      effect_id: id,
      seq: await subject.value("select max(seq) from audit.events where effect_id = $1", [id]),
      name: "outcome",
      operation: "send_note",
      state: "accepted",
      unresolved: false,
      waiting_for: null,
      resolution: null,
      reference: "a",
    });
    assert.deepEqual(await take("outcomes"), []);
  });

  test("a decline", async () => {
    const notBefore = new Date(Date.now() + 600_000);
    const id = await ledger.enqueue(operation, { to: "a" }, { notify: "declines", notBefore });
    await ledger.cancel(id);
    assert.equal(await about(id), "declined");
    assert.deepEqual(
      (await take("declines")).map(({ state }) => state),
      ["declined"],
    );
  });

  test("doubt that an attempt reported", async () => {
    const id = await ended("doubts", "lost");
    assert.equal(await about(id), "unresolved");
    const [row] = await take("doubts");
    assert.deepEqual([row?.state, row?.unresolved], ["admitted", true]);
  });

  test("doubt that begins because a window passed without a word", async () => {
    const id = await ledger.enqueue(silent, { to: "a" }, { notify: "overdue" });
    const word = await waitFor("its window has passed", async () => {
      await subject.sql("select effects_ledger.mark_overdue('test')");
      return about(id);
    });
    assert.equal(word, "unresolved");
    assert.equal(
      await subject.value("select event from audit.events where effect_id = $1 order by seq desc limit 1", [id]),
      "overdue",
    );
    held.open();
    await waitFor("it is accepted at last", async () => (await ledger.observe(id))?.state === "accepted");
    assert.match((await about(id)) ?? "", / outcome$/);
  });

  test("a resolution", async () => {
    const id = await ended("resolutions", "lost to be resolved");
    await take("resolutions");
    await subject.sql("select effects.accept_risk($1, 'nobody will ever know')", [id]);
    assert.equal(await about(id), "outcome resolution");
    const [row, ...rest] = await take("resolutions");
    assert.deepEqual(
      [row?.state, row?.unresolved, row?.resolution, rest.length],
      ["uncertain", false, "risk_accepted", 0],
    );
  });

  test("a contradiction", async () => {
    const id = await ended("contradictions", "a");
    await take("contradictions");
    assert.equal(await report(id, "failed"), "late");
    assert.equal(await about(id), "contradiction");
    assert.deepEqual(
      (await take("contradictions")).map(({ state }) => state),
      ["accepted"],
    );
    await subject.sql("select effects.add_source('bank', 'its statements')");
    const says = "select effects.submit_evidence('bank', null, null, $1, 'failed', '{\"line\": 4}')";
    assert.equal(await subject.value(says, [id]), "contradicts");
    assert.equal(await about(id), "contradiction");
  });

  test("the wait for an approval, and not of another wait", async () => {
    await subject.sql("select effects.protect_operation('charge_card', 'it moves money')");
    await subject.sql("select effects.allow_operation('charge_card', 1, 'reviewed')");
    await subject.sql(
      `select effects.add_policy('charges', 'charge_card', 1, 'charges', task => 'default', approvals_needed => 1,
         approvers => '{ana}')`,
    );
    await ledger.pause({ operation: "charge_card", reason: "not yet" });
    const id = await ledger.enqueue(charge, { to: "a" }, { notify: "approvals" });
    const waits = (what: string) =>
      waitFor(`it waits: ${what}`, async () => {
        const standing = await ledger.observe(id);
        return standing?.state === "prepared" && standing.waitingFor === what;
      });
    await waits("paused");
    assert.equal(await about(id), null);
    await ledger.resume({ operation: "charge_card", reason: "now" });
    await waits("approval");
    assert.equal(await about(id), "awaiting_approval");
    assert.deepEqual(
      (await take("approvals")).map(({ state, waiting_for }) => `${state} ${waiting_for}`),
      ["prepared approval"],
    );
  });

  test("nothing, where nobody asked for notices", async () => {
    const id = await ledger.enqueue(operation, { to: "a" });
    await subject.ended(id);
    assert.equal(await about(id), null);
  });
});

describe("taking", () => {
  test("is undone with its transaction", async () => {
    const id = await ended("undone", "a");
    const client = await subject.connect();
    await client.query("begin");
    assert.deepEqual(ids(await takeOn(client, "undone")), [id]);
    await client.query("rollback");
    assert.deepEqual(ids(await take("undone")), [id]);
    assert.equal(await left("undone"), "0");
  });

  test("gives each effect once, with where it stands now, however many notices there are of it", async () => {
    const id = await ended("twice", "lost twice");
    assert.equal(await report(id, "accepted"), "recorded");
    assert.equal(await about(id), "unresolved outcome");
    assert.deepEqual(
      (await take("twice")).map(({ effect_id, state }) => [effect_id, state]),
      [[id, "accepted"]],
    );
  });

  test("the oldest first, at most as many effects as were asked for", async () => {
    const all = [await ended("many", "a"), await ended("many", "lost"), await ended("many", "c")];
    await report(all[1] ?? "", "accepted");
    assert.deepEqual(ids(await take("many", 2)), all.slice(0, 2));
    assert.deepEqual(ids(await take("many", 2)), all.slice(2));
  });

  test("waits for nobody, and leaves an effect that somebody has to whoever has it, with what is new of it", async () => {
    const first = await ended("shared", "lost first");
    const second = await ended("shared", "second");
    const client = await subject.connect();
    await client.query("begin");
    assert.deepEqual(ids(await takeOn(client, "shared", 1)), [first]);
    assert.equal(await report(first, "accepted"), "recorded", "whoever records waits for nobody either");
    assert.deepEqual(ids(await take("shared")), [second]);
    assert.deepEqual(await take("shared"), []);
    await client.query("commit");
    assert.deepEqual(
      (await take("shared")).map(({ effect_id, state }) => [effect_id, state]),
      [[first, "accepted"]],
    );
  });

  for (const [what, call] of [
    ["a name that is no inbox's", "take_notices('The Orders')"],
    ["no name", "take_notices(null)"],
    ["none", "take_notices('orders', 0)"],
    ["more than 1000", "take_notices('orders', 1001)"],
    ["null", "take_notices('orders', null)"],
  ] as const) {
    test(`${what} is refused`, async () => {
      await assert.rejects(subject.sql(`select effects.${call}`), (error: { code: string; hint: string }) => {
        assert.equal(error.code, "22023");
        return error.hint !== "";
      });
    });
  }
});

describe("whose they are", () => {
  const ENQUEUE = `select effects.enqueue('send_note', '{"to": "x"}', notify => 'common', actor => $1) as id`;

  test("an actor takes its own effects' alone, whoever else has an inbox of that name", async () => {
    const [of_a, of_b] = [await a.connect(), await b.connect()];
    const asked = async (client: pg.Client) =>
      (await client.query<{ id: string }>(ENQUEUE, [null])).rows[0]?.id ?? assert.fail();
    const [by_a, by_b] = [await asked(of_a), await asked(of_b)];
    await Promise.all([subject.ended(by_a), subject.ended(by_b)]);
    assert.deepEqual(await take("common"), [], `${me} is a superuser, and they are not its own`);
    assert.deepEqual(ids(await takeOn(of_a, "common")), [by_a]);
    assert.deepEqual(ids(await takeOn(of_b, "common")), [by_b]);
  });

  test("who may only look takes nothing away, and who speaks for the actor does", async () => {
    await subject.sql("select effects.add_actor('shop', 'the shop', spoken_by => $1)", [a.name]);
    const of_a = await a.connect();
    const id = (await of_a.query<{ id: string }>(ENQUEUE, ["shop"])).rows[0]?.id ?? assert.fail();
    await subject.ended(id);
    await subject.sql("select effects.let_observe($1, 'default', 'to look')", [b.name]);
    const of_b = await b.connect();
    assert.equal((await of_b.query("select from effects.observe($1)", [id])).rowCount, 1);
    assert.deepEqual(await takeOn(of_b, "common"), []);
    const operator = await (await subject.login("op", "operator", "service")).connect();
    assert.deepEqual(await takeOn(operator, "common"), []);
    assert.deepEqual(ids(await takeOn(of_a, "common")), [id]);
  });
});
