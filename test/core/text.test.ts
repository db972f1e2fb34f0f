import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { cleanText, describeThrown, TEXT_MAX } from "../../src/core/text.ts";

/** The cut adds its own words: how much there was. */
const WORDS_OF_THE_CUT_MAX = 40;

describe("clean text", () => {
  test("whatever comes in, what goes out is well-formed, bounded and inert", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 4_000 }), fc.integer({ min: 1, max: 3_000 }), (text, max) => {
        const clean = cleanText(text, max);
        assert.ok(clean.isWellFormed());
        assert.ok(clean.length <= max + WORDS_OF_THE_CUT_MAX);
        assert.doesNotMatch(clean, /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u);
      }),
    );
  });

  test("ordinary text stays as it is, in any script", () => {
    for (const text of [
      "charge 4000 \u2014 caf\u00e9 \ufffd",
      "\u05e9\u05dc\u05d5\u05dd",
      "\u{1f468}\u200d\u{1f469}\u200d\u{1f467}",
    ]) {
      assert.equal(cleanText(text), text);
    }
  });

  test("line breaks and tabs become spaces, every other control character is shown as one that is lost", () => {
    assert.equal(cleanText("a\nb\tc\0d\u001b[31me\u0085"), "a b c\ufffdd\ufffd[31me\ufffd");
  });

  test("every character that turns the direction of text is shown inert", () => {
    const turning = [0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069];
    assert.equal(cleanText(String.fromCodePoint(...turning)), "\ufffd".repeat(turning.length));
  });

  test("a cut in the middle of an emoji leaves no half of it", () => {
    assert.equal(cleanText("ab\u{1f600}cd", 3), "ab\ufffd\u2026 (6 characters)");
  });
});

describe("what was thrown is described, whatever it was", () => {
  const getterThrows = Object.defineProperty(new Error("x"), "message", { get: () => assert.fail("read") });
  const cyclic = new Error("again");
  cyclic.cause = cyclic;
  const unreadable = "something was thrown that cannot be read";
  const throwsOnEveryRead = new Proxy(
    {},
    {
      get: () => assert.fail("read"),
      getPrototypeOf: () => assert.fail("read"),
      has: () => assert.fail("read"),
    },
  );
  const THROWN: Readonly<Record<string, readonly [thrown: unknown, words: string]>> = {
    "an Error": [new TypeError("no"), "TypeError: no"],
    "one with a code": [Object.assign(new Error("refused"), { code: "ECONNREFUSED" }), "Error ECONNREFUSED: refused"],
    "one with U+0000 and half an emoji": [new Error("500: \0\ud83d"), "Error: 500: \ufffd\ufffd"],
    "one whose message getter throws": [getterThrows, unreadable],
    "one that is its own cause": [cyclic, "Error: again"],
    undefined: [undefined, "thrown: undefined"],
    null: [null, "thrown: null"],
    "a string": ["no\nreason", "no reason"],
    "a symbol": [Symbol("odd"), "thrown: Symbol(odd)"],
    "a bigint": [1n, "thrown: 1"],
    "an object": [{ a: 1 }, "thrown: [object Object]"],
    "an object without a prototype": [Object.create(null), unreadable],
    "a Proxy that throws on every read": [throwsOnEveryRead, unreadable],
  };
  for (const [what, [thrown, words]] of Object.entries(THROWN)) {
    test(what, () => assert.equal(describeThrown(thrown), words));
  }

  test("a message of 5 MB is cut", () => {
    const words = describeThrown(new Error("x".repeat(5_000_000)));
    assert.ok(words.startsWith("Error: xxx") && words.length <= TEXT_MAX + WORDS_OF_THE_CUT_MAX);
  });

  test("what is struck out is struck out before the text is cleaned and cut", () => {
    const strikeOut = (text: string) => text.replaceAll("line\nline", "[KEY]");
    assert.equal(describeThrown(new Error("bad line\nline"), strikeOut), "Error: bad [KEY]");
    const atTheCut = describeThrown(new Error(`${"x".repeat(TEXT_MAX - 10)}line\nline`), strikeOut);
    assert.doesNotMatch(atTheCut, /line/);
  });
});
