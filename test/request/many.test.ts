/** Many requests in one call: all or none, checked as one is, and each written as one is (surface, SQL). */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { LedgerError } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { register } from "../harness/registration.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const send = countedOperation("send_many");
const { operation } = send;
const never = countedOperation("send_never").operation;

before(async () => {
  await register(subject.connectionString, [operation, never]);
  await subject.work({ operations: [operation] });
  await ledger.openTask("ended");
  await subject.sql("update effects_ledger.task set ended_at = clock_timestamp() where name = 'ended'");
});

interface Row {
  readonly ordinal: number;
  readonly effect_id: string;
  readonly replayed: boolean;
}

/** As psql would: the requests as text. */
const many = (requests: string, named = "send_never") =>
  subject.sql<Row>("select * from effects.enqueue_many($1, $2::json)", [named, requests]);
const requests = () => subject.value<string>("select count(*) from effects_ledger.request");

test("each request is an effect of its own, in their order, and is carried out once", async () => {
  const asked = Array.from({ length: 50 }, (_, place) => ({ input: { to: `m/${place}` } }));
  const requested = await ledger.enqueueMany(operation, asked);
  assert.deepEqual([...new Set(requested.map(({ replayed }) => replayed))], [false]);
  for (const [place, { effectId }] of requested.entries()) {
    const standing = await subject.ended(effectId);
    assert.ok(standing.state === "accepted", standing.state);
    assert.deepEqual(standing.proof, { receipt: `m/${place}` });
    assert.equal(send.hits(`m/${place}`), 1);
  }
});

test("an effect of many is written as one of one is", async () => {
  const written = async (id: string) => {
    const [row] = await subject.sql<{ row: object }>(
      `select to_jsonb(r) - '{effect_id,key,name,known_as,requested_at,expires_at}'::text[]
           || jsonb_build_object('event', v.event, 'to', v.to_state, 'detail', v.detail, 'given', i.given, 'state', e.state,
                'job', j.task_identifier, 'job_key', j.key = r.effect_id::text, 'job_priority', j.priority,
                'job_run_at', j.run_at = r.not_before, 'live', exists (select from effects_ledger.live l where l.effect_id = r.effect_id),
                'lasts', r.expires_at - r.requested_at) as row
         from effects_ledger.request r join effects_ledger.effect e using (effect_id) join effects_ledger.event v using (effect_id)
         join effects_payload.input i using (effect_id) join effects_queue.jobs j on j.key = r.effect_id::text
        where r.effect_id = $1`,
      [id],
    );
    return row?.row;
  };
  const notBefore = new Date(Date.now() + 3_600_000);
  const options = { priority: -3, onDenial: "decline", trace: "t", notify: "orders", notBefore } as const;
  const one = await ledger.enqueue(never, { to: "same" }, { ...options, name: "one" });
  const [first, ...rest] = await ledger.enqueueMany(never, [{ input: { to: "same" }, ...options, name: "first" }]);
  assert.ok(first && rest.length === 0);
  const expected = await written(one);
  assert.ok(expected);
  assert.deepEqual(await written(first.effectId), expected);
});

test("the bytes of an input reach the ledger as they are given", async () => {
  const [row] = await many(String.raw`[{"name": "as given", "input": {"b" : 1.0, "a":"\u00e9"}}]`);
  const given = await subject.value("select given::text from effects_payload.input where effect_id = $1", [
    row?.effect_id,
  ]);
  assert.equal(given, String.raw`{"b" : 1.0, "a":"\u00e9"}`);
});

test("no requests are no effects, and 10,001 are too many", async () => {
  assert.deepEqual(await many("[]"), []);
  assert.deepEqual(await ledger.enqueueMany(never, []), []);
  await assert.rejects(many(JSON.stringify(Array.from({ length: 10_001 }, () => ({ input: {} })))), {
    code: "22023",
    message: /10001 requests are too many/,
    hint: /several calls/,
  });
});

test("they commit with the caller's rows, or not at all", async () => {
  const client = await subject.connect();
  await client.query("begin");
  const [gone] = await ledger.enqueueMany(never, [{ input: { to: "x" } }], { client });
  await client.query("rollback");
  assert.equal(await ledger.observe(gone?.effectId ?? ""), null);
});

describe("names", () => {
  test("one that was asked for before is the same effect, and one that stands twice in a call is one effect", async () => {
    const earlier = await ledger.enqueue(never, { to: "a" }, { name: "n1" });
    const requested = await ledger.enqueueMany(never, [
      { input: { to: "b" }, name: "n2" },
      { input: { to: "a" }, name: "n1" },
      { input: { to: "c" } },
      { input: { to: "b" }, name: "n2" },
      { input: { to: "c" } },
    ]);
    assert.deepEqual(
      requested.map(({ replayed }) => replayed),
      [false, true, false, true, false],
    );
    assert.equal(requested[1]?.effectId, earlier);
    assert.equal(requested[3]?.effectId, requested[0]?.effectId);
    assert.equal(new Set(requested.map(({ effectId }) => effectId)).size, 4);
    const again = await ledger.enqueueMany(never, [{ input: { to: "b" }, name: "n2" }]);
    assert.deepEqual(again, [{ effectId: requested[0]?.effectId, replayed: true }]);
  });

  test("one that stands twice with another request is refused, and nothing of the call is written", async () => {
    const earlier = await requests();
    await assert.rejects(
      ledger.enqueueMany(never, [
        { input: { to: "a" }, name: "n3" },
        { input: { to: "x" } },
        { input: { to: "b" }, name: "n3" },
      ]),
      { name: "LedgerError", code: "PE104", ordinal: 3, message: /input\/to differs \(request 3\)$/ },
    );
    assert.equal(await requests(), earlier);
  });

  test("in two tasks are two effects", async () => {
    await ledger.openTask("t2");
    const requested = await ledger.enqueueMany(never, [
      { input: { to: "a" }, name: "n4" },
      { input: { to: "b" }, name: "n4", task: "t2" },
    ]);
    assert.deepEqual(
      requested.map(({ replayed }) => replayed),
      [false, false],
    );
  });

  test("batches that share names in another order wait for each other, and never both", async () => {
    const [first, second] = [await subject.connect(), await subject.connect()];
    const pid = (await second.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid;
    const asked = ["n5", "n6", "n7"].map((name) => ({ input: { to: "a" }, name }));
    await first.query("begin");
    const won = await ledger.enqueueMany(never, asked, { client: first });
    const lost = ledger.enqueueMany(never, asked.toReversed(), { client: second });
    lost.catch(() => {}); // asserted below
    await waitFor("the second batch waits", () =>
      subject.value("select wait_event_type = 'Lock' from pg_stat_activity where pid = $1", [pid]),
    );
    await first.query("commit");
    assert.deepEqual(await lost, won.map(({ effectId }) => ({ effectId, replayed: true })).toReversed());
  });

  test("twenty batches of the same names at once are one set of effects", async () => {
    const asked = Array.from({ length: 30 }, (_, place) => ({ input: { to: "a" }, name: `at once ${place}` }));
    const turned = (by: number) => [...asked.slice(by), ...asked.slice(0, by)];
    const all = await Promise.all(Array.from({ length: 20 }, (_, by) => ledger.enqueueMany(never, turned(by))));
    assert.equal(new Set(all.flat().map(({ effectId }) => effectId)).size, 30);
    assert.equal(all.flat().filter(({ replayed }) => !replayed).length, 30);
  });
});

describe("refused, with its ordinal and nothing written", () => {
  const good = '{"input": {"to": "a"}}';
  const calls: readonly (readonly [what: string, request: string, code: string, message: RegExp])[] = [
    ["an unknown key", '{"input": {}, "nmae": "x"}', "22023", /unknown key "nmae"/],
    [
      "the operation, which is the call's",
      '{"input": {}, "operation": "send_many"}',
      "22023",
      /unknown key "operation"/,
    ],
    ["a repeated key", '{"input": {}, "name": "x", "name": "x"}', "PE102", /repeats the key "name"/],
    [
      "a key repeated by an escape",
      String.raw`{"input": {}, "name": "x", "n\u0061me": "x"}`,
      "PE102",
      /repeats the key "name"/,
    ],
    ["a request that is no object", "[]", "22023", /no object/],
    ["null", "null", "22023", /no object/],
    ["no input", "{}", "PE102", /the input is null/],
    ["a name that is no string", '{"input": {}, "name": 42}', "22023", /name is no string/],
    ["a priority that is no number", '{"input": {}, "priority": "1"}', "22023", /priority is no integer/],
    ["a priority that is no integer", '{"input": {}, "priority": 1.5}', "22023", /priority is no integer/],
    ["a priority that is null", '{"input": {}, "priority": null}', "22023", /priority is null/],
    ["a priority out of its range", '{"input": {}, "priority": 32768}', "22023", /^priority is outside/],
    ["a moment that is none", '{"input": {}, "not_before": "soon"}', "22023", /not_before is refused/],
    ["a moment out of range", '{"input": {}, "expires_at": "2026-13-01T00:00Z"}', "22023", /expires_at is refused/],
    ["an id that is none", '{"input": {}, "follows": "x"}', "22023", /follows is refused/],
    ["an inbox that is none", '{"input": {}, "notify": "The Orders"}', "22023", /the inbox "The Orders" is refused/],
    ["on_denial of another word", '{"input": {}, "on_denial": "forget"}', "22023", /on_denial is forget/],
    ["a task that there is not", '{"input": {}, "task": "nowhere"}', "PE103", /task_unknown/],
    ["a task that is null", '{"input": {}, "task": null}', "PE103", /task_unknown/],
    ["a task that has ended", '{"input": {}, "task": "ended"}', "PE108", /task_ended/],
    ["an actor that it does not speak for", '{"input": {}, "actor": "somebody"}', "42501", /does not speak/],
    ["an input with a repeated key", '{"input": {"a": 1, "a": 2}}', "PE102", /repeats the key "a"/],
    ["an input with U+0000", String.raw`{"input": {"to": ["a\u0000"]}}`, "PE102", /\/input\/to\/0 holds U\+0000/],
    ["an input with half a pair", String.raw`{"input": {"to": "\ud800"}}`, "PE102", /\/input\/to holds/],
    ["a name with U+0000", String.raw`{"input": {}, "name": "a\u0000"}`, "PE102", /\/name holds/],
    ["2^53", '{"input": {"to": 9007199254740992}}', "PE102", /beyond 2\^53/],
  ];
  for (const [what, request, code, message] of calls) {
    test(what, async () => {
      const earlier = await requests();
      await assert.rejects(
        many(`[${good}, ${good}, ${request}, ${good}]`),
        (error: { code: string; message: string; hint: string; detail: string }) => {
          assert.equal(error.code, code, error.message);
          assert.match(error.message, message);
          assert.match(error.message, / \(request 3\)$/);
          assert.deepEqual(JSON.parse(error.detail), { ordinal: 3 });
          assert.notEqual(error.hint ?? "", "");
          return true;
        },
      );
      assert.equal(await requests(), earlier);
    });
  }

  for (const [what, given] of [
    ["requests that are no array", '{"input": {}}'],
    ["no requests at all", null],
  ] as const) {
    test(what, async () => {
      const call = subject.sql("select * from effects.enqueue_many('send_never', $1::json)", [given]);
      await assert.rejects(call, { code: "22023", message: "requests is not an array" });
    });
  }

  test("an operation that nobody has registered", async () => {
    await assert.rejects(many(`[${good}]`, "unheard_of"), { code: "PE101", message: /"unheard_of" \(request 1\)$/ });
  });

  for (const [option, message] of [
    [{ priority: Number.NaN }, /priority is no integer \(request 2\)$/],
    [{ followMax: Number.POSITIVE_INFINITY }, /follow_max is no integer/],
    [{ notBefore: new Date("soon") }, /not_before is refused/],
    [{ name: "a\ud800" }, /\/name holds/],
  ] as const) {
    test(`from TypeScript ${JSON.stringify(option)}, which is never left out`, async () => {
      const asked = [{ input: { to: "a" } }, { input: { to: "a" }, ...option }];
      await assert.rejects(ledger.enqueueMany(never, asked), { name: "LedgerError", message });
    });
  }

  test("an input that the schema refuses, in TypeScript before any statement", async () => {
    const asked = [{ input: { to: "a" } }, { input: { to: 1 as unknown as string } }];
    await assert.rejects(ledger.enqueueMany(never, asked), (error: unknown) => {
      assert.ok(error instanceof LedgerError);
      assert.deepEqual([error.code, error.ordinal], ["input_invalid", 2]);
      return true;
    });
  });
});
