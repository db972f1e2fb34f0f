/** Preparation: what declines, what is tried again, and what the record says of it (protocol, section 4). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { z } from "zod";
import { accepted, defineOperation, type Invalid, invalid, LedgerError, type Preparation } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const { ledger } = subject;

let reads = 0;
const { operation, hits } = countedOperation("send_note", {
  contract: { bindingBytesMax: 2_048 },
  prepare: ({ to }) => {
    if (to !== "flaky") return;
    reads += 1;
    if (reads === 1) throw new Error("the catalogue does not answer");
  },
});
/** What is no answer of `prepare`, whatever its types say. */
const ODD_ANSWERS: Readonly<Record<string, unknown>> = {
  undefined: undefined,
  null: null,
  text: "t",
  array: [],
  "account of 7": { target: "t", payload: null, account: 7 },
  "preview of 7": { target: "t", payload: null, preview: 7 },
  "no payload": { target: "t" },
  "a Proxy that throws": new Proxy(
    {},
    {
      has: () => {
        throw new Error("not readable");
      },
    },
  ),
};
const picky = defineOperation({
  name: "send_picky",
  version: 1,
  input: z.strictObject({ how: z.string(), pages: z.int().default(1) }),
  contract: { cost: () => ({ usd_cents: 10n }) },
  prepare: ({ how }): Preparation<unknown> | Invalid => {
    if (how === "never") return invalid("the list is closed");
    if (how === "raise") return { target: "t", payload: null, cost: { usd_cents: 11n } };
    if (how === "add a unit") return { target: "t", payload: null, cost: { usd_cents: 1n, calls: 1n } };
    if (how === "number as cost") return { target: "t", payload: null, cost: { usd_cents: 5 as unknown as bigint } };
    if (how === "no target") return { target: "", payload: null };
    if (how === "no JSON") return { target: "t", payload: new Date(0) };
    if (Object.hasOwn(ODD_ANSWERS, how)) return ODD_ANSWERS[how] as never;
    if (how === "payload of 1 MiB") return { target: "t", payload: "x".repeat(1_048_576 - 2) };
    if (how === "payload above 1 MiB") return { target: "t", payload: "\u00e4".repeat(524_288) };
    if (how === "lower") return { target: "t", payload: null, cost: { usd_cents: 3n }, preview: "a\u202eb" };
    return { target: "t", payload: how.repeat(100) };
  },
  dispatch: () => accepted({ receipt: "r" }),
});

before(() => subject.work({ operations: [operation, picky] }));

/** Requested as psql does, so that nothing is checked before. */
const enqueue = (name: string, input: unknown) =>
  subject.value<string>("select effects.enqueue($1, $2::json)", [name, JSON.stringify(input)]);
const events = async (id: string) =>
  (await subject.sql<{ event: string }>("select event from audit.events where effect_id = $1 order by seq", [id]))
    .map(({ event }) => event)
    .join(" ");

test("an input that the schema refuses is thrown by the client, and declined when it came from SQL", async () => {
  const wrong = { to: 5, of: "secret words" };
  await assert.rejects(ledger.enqueue(operation, wrong as never), (error) => {
    assert.ok(error instanceof LedgerError && error.code === "input_invalid", String(error));
    assert.ok(error.message.includes("/to: ") && !error.message.includes("secret words"), error.message);
    return true;
  });
  assert.equal(await subject.value("select count(*) from effects_ledger.request"), "0");
  const id = await enqueue("send_note", wrong);
  const standing = await subject.ended(id);
  assert.ok(standing.state === "declined");
  assert.deepEqual([standing.reason, standing.code], ["invalid", "input_invalid"]);
  assert.match(standing.hint, /effects\.operations/);
  const detail = await subject.value<object>(
    "select detail from audit.events where effect_id = $1 and event = 'declined'",
    [id],
  );
  assert.ok(!JSON.stringify(detail).includes("secret words"));
});

for (const [how, code] of [
  ["never", "preparation_invalid"],
  ["raise", "preparation_invalid"],
  ["add a unit", "preparation_invalid"],
  ["number as cost", "preparation_invalid"],
  ["no target", "preparation_invalid"],
  ["no JSON", "preparation_invalid"],
  ["payload above 1 MiB", "payload_too_large"],
  ...Object.keys(ODD_ANSWERS).map((how) => [how, "preparation_invalid"] as const),
] as const) {
  test(`a preparation with "${how}" declines as ${code}, and reserves nothing`, async () => {
    const id = await ledger.enqueue(picky, { how });
    const standing = await subject.ended(id);
    assert.ok(standing.state === "declined");
    assert.deepEqual([standing.reason, standing.code], ["invalid", code]);
    assert.equal(await events(id), "requested declined");
    assert.equal(await subject.value("select count(*) from effects_ledger.cost where effect_id = $1", [id]), "0");
  });
}

test("what is no answer is declined with the hint of what one is", async () => {
  const id = await ledger.enqueue(picky, { how: "undefined" });
  await subject.ended(id);
  const detail = await subject.value<Record<string, string>>(
    "select detail from audit.events where effect_id = $1 and event = 'declined'",
    [id],
  );
  assert.match(detail.reason ?? "", /^prepare returned undefined \(return \{ target, payload \}/);
});

test("a payload of exactly 1 MiB is bound and sent", async () => {
  const id = await ledger.enqueue(picky, { how: "payload of 1 MiB" });
  assert.equal((await subject.ended(id)).state, "accepted");
});

test("a declared secret in any part of what would be bound is declined, and stands nowhere in the record", async () => {
  const key = "sk_live_hidden_1";
  const parts: Readonly<Record<string, object>> = {
    target: { target: `customer of ${key}` },
    account: { account: key },
    payload: { payload: { deep: [{ key }] } },
    "payload key": { payload: { [key]: 1 } },
    "payload in base64": { payload: `Basic ${Buffer.from(`user:${key}`).toString("base64")}` },
    precondition: { precondition: { if: key } },
    preview: { preview: `with ${key}` },
  };
  const careless = defineOperation({
    name: "send_careless",
    version: 1,
    input: z.strictObject({ part: z.string() }),
    contract: { secrets: ["CARELESS_KEY"], lane: ({ part }) => (part === "lane" ? key : part) },
    prepare: ({ part }): Preparation<unknown> => ({ target: "t", payload: null, ...parts[part] }),
    dispatch: () => accepted({ receipt: "r" }),
  });
  await subject.work({ operations: [careless], secrets: { CARELESS_KEY: key } });
  for (const part of [...Object.keys(parts), "lane", "nothing"]) {
    const standing = await subject.ended(await ledger.enqueue(careless, { part }));
    if (part === "nothing") assert.equal(standing.state, "accepted");
    else assert.deepEqual([standing.state, "code" in standing && standing.code], ["declined", "secret_bound"], part);
  }
  const tables = ["effects_payload.binding", "effects_payload.input", "effects_ledger.event"];
  for (const table of tables) {
    const rows = await subject.sql<{ row: string }>(`select t::text as row from ${table} as t`);
    const hex = Buffer.from(key).toString("hex");
    for (const { row } of rows) assert.ok(!row.includes(key) && !row.includes(hex), table);
  }
});

test("an input's defaults are bound, not stored; a lower cost and an inert preview are bound", async () => {
  const id = await ledger.enqueue(picky, { how: "lower" });
  assert.equal((await subject.ended(id)).state, "accepted");
  const [row] = await subject.sql<{ given: unknown; bound: Record<string, unknown> }>(
    `select i.given, convert_from(b.bytes, 'UTF8')::json as bound from effects_payload.input i
       join effects_payload.binding b using (effect_id) where effect_id = $1`,
    [id],
  );
  assert.deepEqual(row?.given, { how: "lower" });
  assert.deepEqual(row?.bound.maximum_cost, { usd_cents: "3" });
  assert.equal(row?.bound.preview, "a\ufffdb");
});

test("a binding above the contract's share declines as binding_too_large", async () => {
  const id = await ledger.enqueue(operation, { to: "x".repeat(2_000) });
  const standing = await subject.ended(id);
  assert.ok(standing.state === "declined");
  assert.deepEqual([standing.reason, standing.code], ["invalid", "binding_too_large"]);
  assert.equal(hits("x".repeat(2_000)), 0);
});

test("a preparation that throws could not read: it waits, is tried again, and then it is sent once", async () => {
  const id = await ledger.enqueue(operation, { to: "flaky" });
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(await events(id), "requested denied prepared admitted accepted");
  const detail = "select detail from audit.events where effect_id = $1 and event = 'denied'";
  const denied = await subject.value<Record<string, string>>(detail, [id]);
  assert.deepEqual([denied.code, denied.waiting_for], ["preparation_failed", "preparation"]);
  assert.match(denied.reason ?? "", /the catalogue does not answer/);
  assert.deepEqual([reads, hits("flaky")], [2, 1]);
});
