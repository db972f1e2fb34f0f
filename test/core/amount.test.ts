import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { AMOUNT_MAX, amountsFromJson, amountsToJson, checkAmounts } from "../../src/core/amount.ts";

describe("amounts that an application gives", () => {
  test("a bigint from 0 to what the database holds is taken, and none at all", () => {
    for (const amounts of [{}, { usd_cents: 0n }, { usd_cents: AMOUNT_MAX, mails: 1n }, Object.create(null)]) {
      assert.equal(checkAmounts(amounts), amounts);
    }
  });

  const NO_AMOUNTS = [
    Number.NaN,
    Number.POSITIVE_INFINITY,
    -1,
    2 ** 53,
    1,
    1.5,
    "",
    "1e3",
    "1",
    true,
    null,
    undefined,
    {},
    [1n],
  ];
  for (const amount of [...NO_AMOUNTS, -1n, AMOUNT_MAX + 1n]) {
    test(`${typeof amount} ${String(amount) || '""'} is no amount`, () => {
      assert.throws(() => checkAmounts({ usd_cents: amount }), { code: "amount_invalid" });
    });
  }

  for (const unit of ["", "USD", "usd-cents", "1st", "_x", "__proto__", "a".repeat(33), "usd cents", "usd_cents\n"]) {
    test(`${JSON.stringify(unit)} is no unit`, () => {
      const amounts = Object.fromEntries([[unit, 1n]]);
      assert.throws(() => checkAmounts(amounts), { code: "amount_invalid" });
    });
  }

  test("what holds amounts elsewhere than in its fields is refused, not read as no cost", () => {
    const held: [string, bigint][] = [["usd_cents", 5n]];
    for (const amounts of [
      new Map(held),
      held,
      [],
      new Set([5n]),
      new Date(0),
      null,
      undefined,
      "usd_cents",
      5n,
      () => 5n,
    ]) {
      assert.throws(() => checkAmounts(amounts), { code: "amount_invalid" }, String(amounts));
    }
  });
});

describe("amounts outside the process", () => {
  test("are decimal strings, units in order, and come back as they were", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.stringMatching(/^[a-z][a-z0-9_]{0,31}$/), fc.bigInt(0n, AMOUNT_MAX)), (amounts) => {
        const json = amountsToJson(amounts);
        assert.deepEqual(Object.keys(json).sort(), Object.keys(amounts).sort());
        assert.ok(Object.values(json).every((amount) => /^(0|[1-9][0-9]*)$/.test(amount)));
        assert.deepEqual(amountsFromJson(JSON.parse(JSON.stringify(json))), { ...amounts });
      }),
    );
    assert.equal(
      JSON.stringify(amountsToJson({ b: 9_007_199_254_740_993n, a: 0n })),
      '{"a":"0","b":"9007199254740993"}',
    );
  });

  test("no amounts read as none", () => assert.deepEqual(amountsFromJson(null), {}));
});
