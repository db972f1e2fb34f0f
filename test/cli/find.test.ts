/** `find` and `cancel`: whatever an effect is called by, and what becomes of one that nobody wants any more. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { countedOperation } from "../harness/counted-operation.ts";
import { latch, waitFor } from "../harness/wait.ts";
import { openRoleLedger } from "../roles/with-roles.ts";
import { cli, cliJson, failing } from "./run.ts";

const subject = await openRoleLedger();
const { ledger, connectionString: database } = subject;
const gate = latch();
const charge = countedOperation("charge_card", {
  contract: { reference: ({ receipt }) => `ch_${receipt.replaceAll("/", "_")}` },
  dispatch: async ({ target }) => {
    if (target === "held") await gate.opened;
    return { report: "accepted", proof: { receipt: target } };
  },
});
const later = { notBefore: new Date(Date.now() + 3_600_000) };

interface Found {
  readonly effect_id: string;
  readonly target: string | null;
}

const ids = new Map<string, string>();
before(async () => {
  await subject.work({ operations: [charge.operation] });
  await ledger.openTask("customers/42");
  await ledger.openTask("a:b");
  const ask = async (label: string, to: string, options: object) =>
    ids.set(label, await ledger.enqueue(charge.operation, { to }, options));
  await ask("named", "card/1", { name: "order/7/charge" });
  await ask("other task", "card/2", { name: "order/7/charge", task: "customers/42" });
  await ask("colons", "card/3", { name: "c:d", task: "a:b" });
  await ask("same target", "card/1", { name: "ch_card_2" });
  for (const id of ids.values()) await subject.ended(id);
  await ask("waits", "card/9", later);
});

const idOf = (label: string) => ids.get(label) ?? assert.fail(label);
const keyOf = (label: string) =>
  subject.value<string>("select key from audit.effects where effect_id = $1", [idOf(label)]);

describe("find", () => {
  const find = async (text: string) => {
    const { exit, document } = await cliJson<Found[]>(["find", text], { database });
    assert.equal(exit, 0);
    return document.map(({ effect_id }) => [...ids].find(([, id]) => id === effect_id)?.[0]);
  };

  test("takes the recipient's reference, a key, a name, a target, an id and its end, newest first", async () => {
    assert.deepEqual(await find("ch_card_3"), ["colons"]);
    assert.deepEqual(await find((await keyOf("named")).toUpperCase()), ["named"]);
    assert.deepEqual(await find("order/7/charge"), ["other task", "named"]);
    assert.deepEqual(await find("customers/42:order/7/charge"), ["other task"]);
    assert.deepEqual(await find("a:b:c:d"), ["colons"]);
    assert.deepEqual(await find("card/1"), ["same target", "named"]);
    assert.deepEqual(await find(idOf("waits")), ["waits"]);
    assert.deepEqual(await find(idOf("waits").slice(-8)), ["waits"]);
  });

  test("shows all that a text may mean: one's reference is another one's name", async () => {
    assert.deepEqual(await find("ch_card_2"), ["same target", "other task"]);
    const { stdout } = await cli(["find", "ch_card_2"], { database });
    assert.match(stdout, /^effect +requested +operation +task +name +target +reference +state\n/);
    assert.match(stdout, /customers\/42 +order\/7\/charge +card\/2 +ch_card_2 +accepted via dispatch/);
  });

  test("says where there is none", async () => {
    const { exit, code } = await failing(["find", "ch_none"], { database });
    assert.deepEqual([exit, code], [4, "effect_unknown"]);
  });

  test("shows a service its own, by id or name", async () => {
    const { connectionString, open, name } = await subject.login("shop", "service");
    const own = await open();
    const id = await own.enqueue(charge.operation, { to: "x" }, { ...later, name: "mine" });
    await subject.sql("select effects.open_root_task('shops', 'the shop''s', actor => $1)", [name]);
    const tasked = await own.enqueue(charge.operation, { to: "x" }, { ...later, name: "mine:too", task: "shops" });
    for (const [text, found] of [
      ["mine", id],
      [id, id],
      ["shops:mine:too", tasked],
    ] as const) {
      const { document } = await cliJson<Found[]>(["find", text], { database: connectionString });
      assert.deepEqual(
        document.map(({ effect_id }) => effect_id),
        [found],
      );
    }
    assert.equal((await failing(["find", idOf("named")], { database: connectionString })).code, "effect_unknown");
    assert.equal((await cliJson(["cancel", "mine"], { database: connectionString })).exit, 0);
    assert.equal((await own.find({ name: "mine" }))?.standing.state, "declined");
  });
});

test("an index finds a reference, also through the view that an auditor reads", async () => {
  const client = await subject.connect();
  await client.query("begin; set local enable_seqscan = off");
  const { rows } = await client.query<{ "QUERY PLAN": string }>(
    "explain select effect_id from audit.effects where reference = 'ch_card_1'",
  );
  await client.query("rollback");
  assert.match(rows.map((row) => row["QUERY PLAN"]).join("\n"), /effect_reference/);
});

describe("cancel", () => {
  test("exits 0 where it declined, and the record says by whom", async () => {
    const { exit, document } = await cliJson(["cancel", idOf("waits").slice(-8)], { database });
    assert.deepEqual([exit, document], [0, { effect_id: idOf("waits"), result: "declined" }]);
    const shown = await cli(["show", idOf("waits")], { database });
    assert.match(shown.stdout, /declined, cancelled: cancelled/);
  });

  test("exits 3 where it was admitted: that says nothing about what happens", async () => {
    const id = await ledger.enqueue(charge.operation, { to: "held" }, { name: "held" });
    await waitFor("it is sent", () => charge.hits("held") === 1);
    const { exit, stdout } = await cli(["cancel", "held"], { database });
    assert.equal(exit, 3);
    assert.match(stdout, /its outcome will say/);
    gate.open();
    assert.equal((await subject.ended(id)).state, "accepted");
    const ended = await cliJson(["cancel", "held"], { database });
    assert.deepEqual([ended.exit, ended.document], [4, { effect_id: id, result: "ended" }]);
  });

  test("says where there is none", async () => {
    const { exit, code } = await failing(["cancel", "nothing"], { database });
    assert.deepEqual([exit, code], [4, "effect_unknown"]);
  });
});
