/** What JSON does not carry faithfully is refused with the path to it, before any row exists (protocol, section 3; cases 25, 26). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { z } from "zod";
import { accepted, defineOperation, LedgerError } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { register } from "../harness/registration.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const anything = defineOperation({
  name: "anything",
  version: 1,
  input: z.unknown(),
  dispatch: () => accepted({ receipt: "r" }),
});

before(() => register(subject.connectionString, [anything]));

const enqueue = (text: string) => subject.value<string>("select effects.enqueue('anything', $1::json)", [text]);
const requests = () => subject.value("select count(*) from effects_ledger.request");
const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
const string = (bytes: number) => `"${"x".repeat(bytes - 2)}"`;

/** As text, and what the refusal says. */
const UNFAITHFUL_TEXT: readonly (readonly [name: string, text: string, message: string])[] = [
  ["a repeated key", '{"amount":1,"amount":1000}', 'the input repeats the key "amount"'],
  ["a key repeated by an escape", '{"amount":1,"\\u0061mount":1000}', 'the input repeats the key "amount"'],
  ["a key repeated at depth", '{"a":[{"b":{"c":1,"c":1}}]}', '/a/0/b repeats the key "c"'],
  ["2^53", '{"n":9007199254740992}', "/n is beyond 2^53 - 1"],
  ["-2^53", '{"n":-9007199254740992}', "/n is beyond 2^53 - 1"],
  ["2^53 with a fraction", '{"n":9007199254740992.0}', "/n is beyond 2^53 - 1"],
  ["2^53 by an exponent", '{"n":9007199254740992e0}', "/n is beyond 2^53 - 1"],
  ["1e400", '{"a":[1,1e400]}', "/a/1 is beyond 2^53 - 1"],
  ["1e4000", '{"a":[1,1e4000]}', "/a/1 is a number no double holds"],
  ["1e-400", '{"n":1e-400}', "/n is a number no double holds"],
  ["U+0000 in a value", '{"s":"a\\u0000b"}', "/s holds U+0000 or half a surrogate pair"],
  ["U+0000 in a key", '{"a\\u0000b":1}', "a key of the input holds U+0000 or half a surrogate pair"],
  ["a lone high surrogate in a value", '{"s":"\\ud800"}', "/s holds U+0000 or half a surrogate pair"],
  ["another one", '{"s":["\\ud801"]}', "/s/0 holds U+0000 or half a surrogate pair"],
  ["a lone low surrogate in a value", '{"s":"\\udc00\\ud800"}', "/s holds U+0000 or half a surrogate pair"],
  ["a lone surrogate in a key", '{"o":{"\\ud800":1}}', "a key of /o holds U+0000 or half a surrogate pair"],
  ["nesting of 65", nested(65), `${"/0".repeat(64)} is nested deeper than 64`],
  ["64 KiB and a byte", string(65_537), "the input has 65537 bytes, at most 65536 are taken"],
];

for (const [name, text, message] of UNFAITHFUL_TEXT) {
  test(`${name} is refused from SQL`, async () => {
    await assert.rejects(enqueue(text), { code: "PE102", message: `input_unfaithful: ${message}` });
    assert.equal(await requests(), "0");
  });
}

test("no input, and text that is no JSON, are refused from SQL", async () => {
  await assert.rejects(subject.sql("select effects.enqueue('anything', null)"), { code: "PE102" });
  for (const text of ["NaN", '{"n":NaN}', '{"n":Infinity}', "undefined", '"\ud800', "{,}"]) {
    await assert.rejects(enqueue(text), { code: "22P02" }, text);
  }
  assert.equal(await requests(), "0");
});

class Money {
  readonly cents = 1000;
}
const hole = [1, 2];
delete hole[0];

/** As values of JavaScript, and where the refusal says they are. */
const UNFAITHFUL_VALUES: readonly (readonly [name: string, value: unknown, where: string])[] = [
  ["undefined", undefined, "the value is undefined"],
  ["[undefined]", [undefined], "/0 is undefined"],
  ["a hole", { a: hole }, "/a is an array with holes or properties"],
  ["a Map", { m: new Map([["a", 1]]) }, "/m is a Map, not a plain object"],
  ["a Date", { at: new Date(0) }, "/at is a Date, not a plain object"],
  ["a boxed number", [Object(5)], "/0 is a Number, not a plain object"],
  ["a class instance", [new Money()], "/0 is a Money, not a plain object"],
  ["an object with toJSON", { o: { amount: 1, toJSON: () => ({ amount: 1000 }) } }, "/o/toJSON is function"],
  [
    "an array with toJSON",
    { a: Object.assign([1], { toJSON: () => [1000] }) },
    "/a is an array with holes or properties",
  ],
  ["a bigint", { n: 5n }, "/n is bigint"],
  ["NaN", { n: Number.NaN }, "/n is NaN"],
  ["1e400", { n: Number("1e400") }, "/n is Infinity"],
  ["2^53", { n: 2 ** 53 }, "/n is beyond 2^53 - 1"],
  ["a lone surrogate", { s: "\ud800" }, "/s holds half a surrogate pair"],
  ["another one", { s: "\ud801" }, "/s holds half a surrogate pair"],
  ["U+0000 in a key", { "a\0": 1 }, "/a\0 holds U+0000"],
];

for (const [name, value, where] of UNFAITHFUL_VALUES) {
  test(`${name} is refused in TypeScript`, async () => {
    await assert.rejects(ledger.enqueue(anything, value), (error) => {
      assert.ok(error instanceof LedgerError, String(error));
      assert.deepEqual([error.code, error.message], ["input_unfaithful", where]);
      return error.hint !== undefined;
    });
    assert.equal(await requests(), "0");
  });
}

test("what is faithful is taken as it is, up to every bound, and by both ways alike", async () => {
  const values = [
    "\ufffd",
    [],
    {},
    null,
    true,
    9_007_199_254_740_991,
    -9_007_199_254_740_991,
    { "": { "~/": "é" } },
    "💳",
  ];
  const given = (id: string) => subject.value("select given from effects_payload.input where effect_id = $1", [id]);
  for (const [place, value] of values.entries()) {
    const name = `faithful ${place}`;
    const id = await ledger.enqueue(anything, value, { name });
    assert.deepEqual(await given(id), value);
    const bySql = subject.value("select effects.enqueue('anything', $1::json, name => $2)", [
      JSON.stringify(value),
      name,
    ]);
    assert.equal(await bySql, id);
  }
  assert.deepEqual(await given(await enqueue(nested(64))), JSON.parse(nested(64)));
  assert.deepEqual(await given(await enqueue(string(65_536))), JSON.parse(string(65_536)));
});
