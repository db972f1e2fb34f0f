/** A name asks for the same effect, or is refused with what differs (protocol, section 3). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { z } from "zod";
import { accepted, defineOperation } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { register } from "../harness/registration.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const version = (number: number) =>
  defineOperation({
    name: "send_note",
    version: number,
    input: z.record(z.string(), z.json()),
    dispatch: () => accepted({ receipt: "r" }),
  });
const operation = version(1);
const other = defineOperation({ ...operation.definition, name: "send_other", version: 1 });

before(() => register(subject.connectionString, [operation, other]));

/** As psql would: the input as text. */
const enqueue = (input: string, options: { name?: string; task?: string; operation?: string } = {}) =>
  subject.value<string>("select effects.enqueue($1, $2::json, task => $3, name => $4)", [
    options.operation ?? "send_note",
    input,
    options.task ?? "default",
    options.name ?? null,
  ]);

test("the same name with the same request is the same effect, however its JSON is written", async () => {
  const id = await enqueue('{"a": 1, "b": [0.1, "é", {"c": -0}]}', { name: "n1" });
  assert.equal(await enqueue('{"b":[1e-1,"\\u00e9",{"c":0.0}],"a":1.0}', { name: "n1" }), id);
  assert.equal(await ledger.enqueue(operation, { b: [0.1, "é", { c: -0 }], a: 1 }, { name: "n1" }), id);
  assert.equal(await subject.value("select count(*) from audit.events where effect_id = $1", [id]), "1");
});

test("without a name equal requests are two effects, and in another task a name is another's", async () => {
  assert.notEqual(await enqueue("{}"), await enqueue("{}"));
  await ledger.openTask("t2");
  assert.notEqual(await enqueue("{}", { name: "n2" }), await enqueue("{}", { name: "n2", task: "t2" }));
});

for (const [was, is, differs] of [
  ['{"a":{"b":[1]},"c":1}', '{"a":{"b":[2]},"c":1}', "input/a/b"],
  ['{"a":1}', '{"a":1,"b":null}', "input/b"],
  ['{"a":{}}', '{"a":[]}', "input/a"],
  ['{"a":1}', '{"a":"1"}', "input/a"],
  ['{"a":0.1}', '{"a":0.10000000000000002}', "input/a"],
  ['{"x/y~z":{"":1}}', '{"x/y~z":{"":2}}', "input/x~1y~0z/"],
] as const) {
  test(`${is} under the name of ${was} is refused: ${differs} differs`, async () => {
    const name = `conflict ${is}`;
    await enqueue(was, { name });
    await assert.rejects(enqueue(is, { name }), (error: Error & { code: string; hint: string }) => {
      assert.equal(error.code, "PE104");
      assert.ok(error.message.endsWith(`; ${differs} differs`), error.message);
      return error.hint !== "";
    });
  });
}

test("another operation under a name is refused as another operation", async () => {
  await enqueue("{}", { name: "n3" });
  await assert.rejects(enqueue("{}", { name: "n3", operation: "send_other" }), {
    code: "PE104",
    message: /operation differs$/,
  });
  await assert.rejects(ledger.enqueue(other, {}, { name: "n3" }), { name: "LedgerError", code: "PE104" });
});

test("a replay is the same effect after its task has ended, and keeps its version after a newer one is there", async () => {
  await ledger.openTask("ending");
  const id = await enqueue('{"a":1}', { name: "n4", task: "ending" });
  await subject.sql("update effects_ledger.task set ended_at = clock_timestamp() where name = 'ending'");
  await register(subject.connectionString, [version(2)]);
  assert.equal(await enqueue('{"a":1}', { name: "n4", task: "ending" }), id);
  await assert.rejects(enqueue('{"a":2}', { name: "n4", task: "ending" }), { code: "PE104" });
  const versionOf = (effect: string) => subject.value("select version from effects.observe($1)", [effect]);
  assert.equal(await versionOf(id), 1);
  assert.equal(await versionOf(await enqueue("{}")), 2);
});

test("of two requests under one name at once the second waits, and is the first one's effect if that commits", async () => {
  const [first, second] = [await subject.connect(), await subject.connect()];
  const request = "select effects.enqueue('send_note', $1::json, name => $2) as id";
  const pid = (await second.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid;
  const race = async (name: string, input: string, end: "commit" | "rollback") => {
    await first.query("begin");
    const won = await first.query<{ id: string }>(request, ['{"a":1}', name]);
    const waiting = second.query<{ id: string }>(request, [input, name]);
    waiting.catch(() => {}); // asserted below
    await waitFor("the second request waits", () =>
      subject.value("select wait_event_type = 'Lock' from pg_stat_activity where pid = $1", [pid]),
    );
    await first.query(end);
    return { won: won.rows[0]?.id, lost: waiting.then(({ rows }) => rows[0]?.id) };
  };
  const same = await race("n5", '{"a":1}', "commit");
  assert.equal(await same.lost, same.won);
  const conflict = await race("n6", '{"a":2}', "commit");
  await assert.rejects(conflict.lost, { code: "PE104" });
  const freed = await race("n7", '{"a":2}', "rollback");
  assert.notEqual(await freed.lost, freed.won);
  assert.equal(await ledger.observe(freed.won ?? ""), null);
});
