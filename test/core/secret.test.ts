import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import fc from "fast-check";
import { Secrets } from "../../src/core/secret.ts";

const URL_OF_ONE = "postgres://app:p%40ss%2Fword@db.example/shop";

describe("getting a secret", () => {
  const secrets = new Secrets(["CARDS_KEY", "EMPTY", "ABSENT"], {
    CARDS_KEY: "sk_live_1",
    EMPTY: "",
    OTHER: "undeclared",
  });

  test("gives what is declared and has a value", () => assert.equal(secrets.get("CARDS_KEY"), "sk_live_1"));

  test("what the contract does not declare is refused, although it has a value", () => {
    assert.throws(() => secrets.get("OTHER"), { code: "secret_undeclared" });
    assert.throws(() => secrets.get("constructor"), { code: "secret_undeclared" });
  });

  test("what has no value is missing", () => {
    for (const name of ["EMPTY", "ABSENT"]) assert.throws(() => secrets.get(name), { code: "secret_missing" });
  });

  test("no refusal, and no look at the object, tells a value", () => {
    const hidden = new Secrets(["EMPTY"], { EMPTY: "", OTHER: "sk_hidden" });
    for (const name of ["OTHER", "EMPTY"]) {
      assert.throws(
        () => hidden.get(name),
        (error: Error) => !inspect(error).includes("sk_hidden"),
      );
    }
    assert.doesNotMatch(inspect(hidden) + JSON.stringify(hidden), /sk_hidden/);
  });
});

describe("striking out", () => {
  const struck = (value: string, text: string) => new Secrets(["KEY"], { KEY: value }).strikeOut(text);

  const FORMS: Readonly<Record<string, readonly [value: string, text: string, left: string]>> = {
    "a value, everywhere": ["sk_live_1", "sk_live_1 and sk_live_1", "[KEY] and [KEY]"],
    "a value inside JSON": ['a"b\\c', JSON.stringify({ said: 'a"b\\c' }), '{"said":"[KEY]"}'],
    "a value with line breaks inside JSON": ["-----\nabc\n-----", '"-----\\nabc\\n-----"', '"[KEY]"'],
    "an address": [URL_OF_ONE, `connecting to ${URL_OF_ONE}`, "connecting to [KEY]"],
    "an address's password as it is written": [URL_OF_ONE, "bad p%40ss%2Fword", "bad [KEY]"],
    "an address's password as it is meant": [URL_OF_ONE, "bad p@ss/word", "bad [KEY]"],
    "a password with a bare percent sign": ["postgres://app:100%25_no%@db/shop", "bad 100%25_no%", "bad [KEY]"],
    "a value that a pattern would read": ["a.*+b", "a.*+b axxb", "[KEY] axxb"],
  };
  for (const [what, [value, text, left]] of Object.entries(FORMS)) {
    test(what, () => assert.equal(struck(value, text), left));
  }

  test("a value of fewer than four characters stays: ordinary text is full of it", () => {
    assert.equal(struck("abc", "abcd"), "abcd");
    assert.equal(struck("abcd", "abcd"), "[KEY]");
  });

  test("a secret that begins with another one leaves nothing of itself", () => {
    for (const names of [
      ["A", "B"],
      ["B", "A"],
    ]) {
      assert.equal(new Secrets(names, { A: "abcd", B: "abcdefgh" }).strikeOut("abcdefgh, abcd"), "[B], [A]");
    }
  });

  test("undeclared and missing ones change nothing", () => {
    assert.equal(new Secrets(["ABSENT"], { OTHER: "sk_live_1" }).strikeOut("sk_live_1"), "sk_live_1");
  });

  test("whatever the value is, it does not throw and leaves nothing of it", () => {
    const value = fc.oneof(
      fc.string({ unit: "binary", minLength: 4 }),
      fc.webUrl(),
      fc.string().map((password) => `postgres://app:${password}@db/shop`),
    );
    fc.assert(
      fc.property(
        value.filter((each) => !each.includes("\n")),
        (secret) => {
          assert.equal(struck(secret, `\n${secret}\n`), "\n[KEY]\n");
        },
      ),
    );
  });
});
