/** A list of effects as people, banks and programs write it: read as a whole, or refused with its line before anything is done. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Listed, parseList } from "../../src/cli/effect-list.ts";
import { LedgerError } from "../../src/core/error.ts";

const line = (fields: Partial<Listed> & Pick<Listed, "line" | "given">): Listed => ({
  as: null,
  reference: null,
  cost: null,
  ...fields,
});

describe("CSV", () => {
  const lists: readonly (readonly [what: string, text: string, listed: readonly Listed[]])[] = [
    [
      "with a header, blank lines and Windows' line ends",
      "key,as,cost\r\nAB12,accepted,usd_cents=40 mails=1\r\n\r\ncd34,no_effect,\r\n",
      [
        line({ line: 2, given: "ab12", as: "accepted", cost: { usd_cents: "40", mails: "1" } }),
        line({ line: 4, given: "cd34", as: "no_effect" }),
      ],
    ],
    [
      "by semicolons, with a byte order mark and capitals in the header",
      "\ufeffReference;Key\nch_1;ab\n",
      [line({ line: 2, given: "ab", reference: "ch_1" })],
    ],
    [
      "with quotes, and line ends and separators inside them",
      'note,key\n"said ""no"",\nthen yes",ab\n"x",cd',
      [line({ line: 2, given: "ab" }), line({ line: 4, given: "cd" })],
    ],
  ];
  for (const [what, text, listed] of lists) {
    test(what, () => assert.deepEqual(parseList(text, "key").listed, listed));
  }

  test("columns that mean nothing are named, so that a mistyped one is seen", () => {
    assert.deepEqual(parseList("key,costs,Betrag\nab,usd_cents=1,9\n", "key").unused, ["costs", "Betrag"]);
  });
});

describe("JSON lines", () => {
  test("with the same names; amounts as digits, or as numbers that a double holds", () => {
    const text =
      '{"effect":"order/1","as":"failed","cost":{"usd_cents":"40","mails":1}}\n\n{"effect":"order/2","seen":true}\n';
    const { listed, unused } = parseList(text, "effect");
    assert.deepEqual(listed, [
      line({ line: 1, given: "order/1", as: "failed", cost: { usd_cents: "40", mails: "1" } }),
      line({ line: 3, given: "order/2" }),
    ]);
    assert.deepEqual(unused, ["seen"]);
  });
});

describe("is refused with its line", () => {
  const wrong: readonly (readonly [what: string, text: string, says: RegExp])[] = [
    ["without lines", "key,as\n", /^line 1: the list is empty/],
    ["without the column that names the effects", "reference\nch_1\n", /^line 2: it has no key/],
    ["with an outcome that is none", "key,as\nab,accepted\ncd,done\n", /^line 3: as "done" says nothing/],
    ["with a cell too few", "key,as\nab\n", /^line 2: it has 1 cells, the header 2/],
    ["with a column twice", "key,Key\nab,cd\n", /^line 1: two columns are named key/],
    ["with an open quote", 'key\n"ab\n', /^line 2: a quote is not closed/],
    ["with something behind a quote", 'key\n"ab"c\n', /^line 2: something follows/],
    ["with a cost without digits", "key,cost\nab,usd_cents\n", /^line 2: the cost "usd_cents"/],
    ["with a unit twice", "key,cost\nab,a=1 a=2\n", /^line 2: the cost names a twice/],
    ["with JSON that is none", '{"key":"ab"}\n{"key":\n', /^line 2: it is not JSON/],
    ["with a list where an object belongs", '{"key":"ab"}\n["ab"]\n', /^line 2: it is no JSON object/],
    ["with a key of JSON twice", '{"key":"ab","as":"accepted","as":"failed"}\n', /^line 1: as stands twice/],
    [
      "with a number that a double changes",
      '{"key":"ab","cost":{"a":9007199254740993}}\n',
      /^line 1: .* neither text nor/,
    ],
  ];
  for (const [what, text, says] of wrong) {
    test(what, () => {
      assert.throws(
        () => parseList(text, "key"),
        (error) => error instanceof LedgerError && error.code === "list_invalid" && says.test(error.message),
      );
    });
  }
});
