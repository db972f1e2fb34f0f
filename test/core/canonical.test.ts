import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import fc from "fast-check";
import { canonicalBytes, canonicalText, DEPTH_MAX } from "../../src/core/canonical.ts";
import { sha256 } from "../../src/core/digest.ts";

interface Vector {
  readonly text: string;
  readonly canonical: string;
  readonly sha256: string;
}
const { vectors } = JSON.parse(await readFile(new URL("canonical-json.json", import.meta.url), "utf8")) as {
  vectors: readonly Vector[];
};

/** What JSON carries as it is: strings well-formed and without U+0000, numbers finite and within 2^53 - 1. */
const text = fc.string({ unit: "grapheme" }).filter((each) => !each.includes("\0"));
const number = fc.oneof(
  fc.maxSafeInteger(),
  fc.double({ noNaN: true, noDefaultInfinity: true, min: -Number.MAX_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }),
);
const { faithful } = fc.letrec<{ faithful: unknown }>((tie) => ({
  faithful: fc.oneof(
    { depthSize: "small" },
    fc.constant(null),
    fc.boolean(),
    number,
    text,
    fc.array(tie("faithful")),
    fc.dictionary(text, tie("faithful")),
  ),
}));

describe("the canonical form", () => {
  test("every vector has its text and its digest", () => {
    for (const vector of vectors) {
      const value: unknown = JSON.parse(vector.text);
      assert.equal(canonicalText(value), vector.canonical, vector.text);
      assert.equal(sha256(canonicalBytes(value)).toString("hex"), vector.sha256, vector.text);
    }
  });

  test("keys are in the order of their UTF-16 units, not of their code points or of their writing", () => {
    const sample = { "\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7 }; // RFC 8785, 3.2.3
    assert.equal(canonicalText(sample), '{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\ud83d\ude00":5,"\ufb33":3}');
  });

  test("reading it and writing it again changes nothing", () => {
    fc.assert(
      fc.property(faithful, (value) => {
        const once = canonicalText(value);
        assert.equal(canonicalText(JSON.parse(once)), once);
      }),
    );
  });

  test("it says the same value", () => {
    fc.assert(
      fc.property(faithful, (value) => {
        assert.deepEqual(JSON.parse(canonicalText(value)), JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test("the order in which keys were written does not show", () => {
    fc.assert(
      fc.property(fc.dictionary(text, faithful), (object) => {
        const reversed = Object.fromEntries(Object.entries(object).reverse());
        assert.equal(canonicalText(reversed), canonicalText(object));
      }),
    );
  });

  test("minus zero is zero", () => assert.equal(canonicalText([-0, { a: -0 }]), '[0,{"a":0}]'));

  test("nesting is carried up to the documented depth, and refused beyond it", () => {
    const nested = (depth: number) => JSON.parse("[".repeat(depth) + "]".repeat(depth)) as unknown;
    assert.equal(canonicalText(nested(DEPTH_MAX)).length, 2 * DEPTH_MAX);
    assert.throws(() => canonicalText(nested(DEPTH_MAX + 1)), { code: "input_unfaithful" });
  });
});

class Money {
  readonly cents = 1;
}
class Listed extends Array<number> {
  toJSON() {
    return [1_000];
  }
}
const cyclic: Record<string, unknown> = {};
cyclic.again = cyclic;

/** Each with the JSON pointer of what is wrong. */
const UNFAITHFUL: Readonly<Record<string, readonly [value: unknown, at: string]>> = {
  undefined: [undefined, "the value "],
  "an undefined field": [{ a: { b: undefined } }, "/a/b "],
  "an undefined element": [[undefined], "/0 "],
  "a hole": [Object.assign(new Array(3), { 0: 1, 2: 3 }), "the value "],
  "a hole below": [{ list: new Array(1) }, "/list "],
  "a property on an array": [Object.assign([1], { extra: 2 }), "the value "],
  NaN: [{ amount: Number.NaN }, "/amount "],
  Infinity: [[1, Number.POSITIVE_INFINITY], "/1 "],
  "1e400": [JSON.parse('{"amount":1e400}'), "/amount "],
  "2^53": [{ amount: 2 ** 53 }, "/amount "],
  "-2^53": [{ amount: -(2 ** 53) }, "/amount "],
  "a bigint": [{ amount: 1n }, "/amount "],
  "a high surrogate alone": [{ a: "\ud800" }, "/a "],
  "another one": [{ a: "\ud801" }, "/a "],
  "a low surrogate alone": [["\udc00"], "/0 "],
  "U+0000": [{ a: { b: ["x\0y"] } }, "/a/b/0 "],
  "half a pair in a key": [{ "\ud800": 1 }, "/\ufffd "],
  "a key with / and ~": [{ "a/b~c": undefined }, "/a~1b~0c "],
  "a Map": [{ at: new Map([["a", 1]]) }, "/at "],
  "a Set": [new Set([1]), "the value "],
  "a Date": [{ at: new Date(0) }, "/at "],
  "a boxed number": [{ at: Object(1) }, "/at "],
  "a boxed string": [Object("1"), "the value "],
  "a class instance": [new Money(), "the value "],
  bytes: [{ at: Buffer.from("a") }, "/at "],
  "an own toJSON": [{ amount: 1, toJSON: () => ({ amount: 1_000 }) }, "/toJSON "],
  "a list with an inherited toJSON": [{ list: Listed.from([1]) }, "/list "],
  "a computed field": [
    {
      get amount() {
        return 1;
      },
    },
    "/amount ",
  ],
  "a computed element": [Object.defineProperty([0], 0, { get: () => 1, enumerable: true }), "/0 "],
  "a hidden field": [Object.defineProperty({}, "amount", { value: 1 }), "/amount "],
  "a symbol": [{ at: Symbol("at") }, "/at "],
  "a symbol as a key": [{ [Symbol("at")]: 1 }, "the value "],
  "a function": [[() => 1], "/0 "],
  "a cycle": [cyclic, "/again/again"],
};

describe("what JSON would quietly change is refused, with the path to it", () => {
  for (const [what, [value, at]] of Object.entries(UNFAITHFUL)) {
    test(what, () => {
      assert.throws(
        () => canonicalText(value),
        (error: Error & { code?: string }) => {
          assert.equal(error.code, "input_unfaithful");
          assert.ok(error.message.startsWith(at), `${error.message} begins with ${at}`);
          return true;
        },
      );
    });
  }

  test("the replacement character itself is a string like any other", () =>
    assert.equal(canonicalText("\ufffd"), '"\ufffd"'));

  test("an empty list is not a list of nothing", () => assert.equal(canonicalText([]), "[]"));

  test("an object without a prototype, and a key __proto__, are plain data", () => {
    assert.equal(canonicalText(Object.assign(Object.create(null), { a: 1 })), '{"a":1}');
    assert.equal(canonicalText(JSON.parse('{"__proto__":{"x":1}}')), '{"__proto__":{"x":1}}');
  });
});
