import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import fc from "fast-check";
import { type Json, Secrets } from "../../src/core/secret.ts";

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

describe("finding", () => {
  const found = (key: string, value: Json) =>
    new Secrets(["OTHER", "KEY"], { OTHER: "unused", KEY: key }).findIn(value);

  test("says which secret and where, in strings, keys and numbers, and in every form", () => {
    assert.deepEqual(found("sk_live_1", { a: [{ "b/c": "is sk_live_1" }] }), { name: "KEY", path: "/a/0/b~1c" });
    assert.deepEqual(found("sk_live_1", { a: { sk_live_1: 1 } }), { name: "KEY", path: "/a/[KEY]" });
    assert.deepEqual(found("40001234", { a: 40001234 }), { name: "KEY", path: "/a" });
    const encoded = Buffer.from("user:sk_live_1").toString("base64");
    assert.deepEqual(found("sk_live_1", { header: `Basic ${encoded}` }), { name: "KEY", path: "/header" });
  });

  test("nothing where there is none", () => {
    assert.equal(found("sk_live_1", { a: ["sk_live", null, true, 1] }), null);
    assert.equal(found("", { a: "" }), null);
  });

  test("an address's password, but not what also names a place or an account", () => {
    const inAddress = (address: string, value: Json) => found(address, value)?.path ?? null;
    assert.equal(inAddress(URL_OF_ONE, { said: "p@ss/word" }), "/said");
    assert.equal(inAddress(URL_OF_ONE, { account: "app at db.example", base: "shop" }), null);
    assert.equal(inAddress("postgres://postgres:postgres@localhost/shop", { account: "postgres at localhost" }), null);
    assert.equal(inAddress("https://api.example", { url: "https://api.example/v1/charges" }), null);
    assert.equal(inAddress("https://api.example:8443/", { url: "https://api.example:8443/v1" }), null);
    const hook = "https://hooks.example/services/T0/XYZ";
    assert.equal(inAddress(hook, { url: hook }), "/url");
  });

  test("a short one only where it stands alone", () => {
    assert.equal(found("test", { mode: "latest" }), null);
    assert.deepEqual(found("test", { mode: "contest (test)" }), { name: "KEY", path: "/mode" });
  });
});

describe("striking out", () => {
  const struck = (value: string, text: string) => new Secrets(["KEY"], { KEY: value }).strikeOut(text);

  const base64 = (text: string, encoding: BufferEncoding = "base64") => Buffer.from(text).toString(encoding);

  const FORMS: Readonly<Record<string, readonly [value: string, text: string, left: string]>> = {
    "a value, everywhere": ["sk_live_1", "sk_live_1 and sk_live_1", "[KEY] and [KEY]"],
    "a value inside JSON": ['a"b\\c', JSON.stringify({ said: 'a"b\\c' }), '{"said":"[KEY]"}'],
    "a value with line breaks inside JSON": ["-----\nabc\n-----", '"-----\\nabc\\n-----"', '"[KEY]"'],
    "an address": [URL_OF_ONE, `connecting to ${URL_OF_ONE}`, "connecting to [KEY]"],
    "an address's password as it is written": [URL_OF_ONE, "bad p%40ss%2Fword", "bad [KEY]"],
    "an address's password as it is meant": [URL_OF_ONE, "bad p@ss/word", "bad [KEY]"],
    "a password with a bare percent sign": ["postgres://app:100%25_no%@db/shop", "bad 100%25_no%", "bad [KEY]"],
    "a value that a pattern would read": ["a.*+b", "a.*+b axxb", "[KEY] axxb"],
    "a value in base64": ["sk_live_1", `is ${base64("sk_live_1")}, no?`, "is [KEY], no?"],
    "a value in base64 for addresses": ["sk~?live>>", `is ${base64("sk~?live>>", "base64url")}`, "is [KEY]"],
    "a value in base64 behind one byte, and before others": ["sk_live_1", base64(":sk_live_1 more"), "O[KEY]Btb3Jl"],
    "a value in base64 behind two bytes": ["sk_live_1", `Basic ${base64("a:sk_live_1")}`, "Basic YT[KEY]"],
    "a password in an authorization header": [URL_OF_ONE, `Basic ${base64("app:p@ss/word")}`, "Basic YXBwO[KEY]"],
    "a value as a part of an address": ["a b/c+d", "https://x/?k=a%20b%2Fc%2Bd", "https://x/?k=[KEY]"],
    "a value as a part of an address, in small letters": ["a b/c+d", "k=a%20b%2fc%2bd", "k=[KEY]"],
    "a value as a field of a form": ["a b/c+d!", "k=a+b%2Fc%2Bd%21&l=1", "k=[KEY]&l=1"],
    "a value that is an address inside another one": ["http://h/p?q=1", "to=http%3A%2F%2Fh%2Fp%3Fq%3D1", "to=[KEY]"],
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

  test("whatever stands around it, nothing of it can be decoded from what is left of base64", () => {
    const text = fc.string({ unit: fc.constantFrom(..."ghijklmno"), maxLength: 7 });
    const secret = fc.string({ unit: fc.constantFrom(..."ABCDEFGH12345"), minLength: 6, maxLength: 20 });
    const kind = fc.constantFrom<BufferEncoding>("base64", "base64url");
    fc.assert(
      fc.property(text, secret, text, kind, (before, value, after, encoding) => {
        const encoded = Buffer.from(before + value + after).toString(encoding);
        const [head = "", tail = "", ...more] = struck(value, encoded).split("[KEY]");
        assert.deepEqual(more, []);
        const aligned = tail.slice((4 - ((encoded.length - tail.length) % 4)) % 4);
        for (const left of [head, aligned]) {
          assert.doesNotMatch(Buffer.from(left, encoding).toString("latin1"), /[A-H1-5]/);
        }
      }),
    );
  });
});
