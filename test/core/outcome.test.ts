import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import type { Amounts } from "../../src/core/amount.ts";
import { evidenceDigest } from "../../src/core/digest.ts";
import { decideNoEffect, decideOutcome } from "../../src/core/outcome.ts";
import { accepted, type DispatchReport, failed, fenced, notSent, unknown } from "../../src/core/report.ts";
import { NO_SECRETS } from "../../src/core/secret.ts";
import { outcomeOf, rulesOf, settledBy } from "./rules.ts";

const RESERVED: Amounts = { usd_cents: 100n, mails: 2n };
const MAXIMUM = { usd_cents: "100 + 0 (maximum)", mails: "2 + 0 (maximum)" };
const RELEASED = { usd_cents: "0 + 0 (none)", mails: "0 + 0 (none)" };
const proof = { charge: "ch_1" };
const declined = { code: "declined", said: "no" };

interface Case {
  readonly report: DispatchReport<unknown>;
  readonly outcome: "accepted" | "failed" | "no_effect";
  readonly standing: "settled" | "released";
  readonly settled: Record<string, string>;
}
/** Every report that decides, under every kind of cost. */
const DECIDED: Readonly<Record<string, Case>> = {
  "acceptance without a measured cost spends the maximum": {
    report: accepted(proof),
    outcome: "accepted",
    standing: "settled",
    settled: MAXIMUM,
  },
  "acceptance spends what was measured": {
    report: accepted(proof, { cost: { usd_cents: 60n, mails: 0n } }),
    outcome: "accepted",
    standing: "settled",
    settled: { usd_cents: "60 + 0 (measured)", mails: "0 + 0 (measured)" },
  },
  "a unit that was not measured is spent at its maximum": {
    report: accepted(proof, { cost: { usd_cents: 60n } }),
    outcome: "accepted",
    standing: "settled",
    settled: { usd_cents: "60 + 0 (measured)", mails: "2 + 0 (maximum)" },
  },
  "a cost above what was reserved is overrun": {
    report: accepted(proof, { cost: { usd_cents: 130n, mails: 2n } }),
    outcome: "accepted",
    standing: "settled",
    settled: { usd_cents: "100 + 30 (measured)", mails: "2 + 0 (measured)" },
  },
  "a unit that was not reserved is overrun as a whole": {
    report: accepted(proof, { cost: { tokens: 7n } }),
    outcome: "accepted",
    standing: "settled",
    settled: { ...MAXIMUM, tokens: "0 + 7 (measured)" },
  },
  "so is one that is named like something every object has": {
    report: accepted(proof, { cost: { constructor: 7n } as unknown as Amounts }),
    outcome: "accepted",
    standing: "settled",
    settled: { ...MAXIMUM, constructor: "0 + 7 (measured)" },
  },
  "a cost that is no amount measures nothing": {
    report: accepted(proof, { cost: { usd_cents: -1n } }),
    outcome: "accepted",
    standing: "settled",
    settled: MAXIMUM,
  },
  "a listed refusal without effect costs nothing": {
    report: failed(declined),
    outcome: "failed",
    standing: "released",
    settled: RELEASED,
  },
  "a listed refusal without effect costs what was measured": {
    report: failed(declined, { cost: { usd_cents: 1n, mails: 0n } }),
    outcome: "failed",
    standing: "settled",
    settled: { usd_cents: "1 + 0 (measured)", mails: "0 + 0 (measured)" },
  },
  "a listed refusal that may have had an effect spends the maximum": {
    report: failed({ code: "half_done" }),
    outcome: "failed",
    standing: "settled",
    settled: MAXIMUM,
  },
  "a listed refusal that may have had an effect spends what was measured": {
    report: failed({ code: "half_done" }, { cost: { usd_cents: 100n, mails: 1n } }),
    outcome: "failed",
    standing: "settled",
    settled: { usd_cents: "100 + 0 (measured)", mails: "1 + 0 (measured)" },
  },
  "what was not sent costs nothing": {
    report: notSent({ code: "refused" }),
    outcome: "no_effect",
    standing: "released",
    settled: RELEASED,
  },
};

describe("a report that decides", () => {
  for (const [claim, { report, outcome, standing, settled }] of Object.entries(DECIDED)) {
    test(claim, () => {
      const decided = outcomeOf(decideOutcome(report, rulesOf(), RESERVED));
      assert.deepEqual([decided.outcome, decided.standing], [outcome, standing]);
      assert.deepEqual(settledBy(decided.settlements), settled);
    });
  }

  test("the proof and the recipient's word are kept as they are, with their digest", () => {
    for (const [report, kept] of [
      [accepted(proof), proof],
      [failed(declined), declined],
      [notSent([1]), [1]],
    ] as const) {
      const { evidence } = outcomeOf(decideOutcome(report, rulesOf(), RESERVED));
      assert.deepEqual(JSON.parse(evidence.bytes.toString("utf8")), kept);
      assert.deepEqual(evidence.digest, evidenceDigest(evidence.bytes));
    }
  });

  describe("is tried again after the time that its adapter says", () => {
    const again = (report: DispatchReport<unknown>) =>
      outcomeOf(decideOutcome(report, rulesOf(), RESERVED)).againAfterMs;

    test("where nothing was sent, or it was refused without effect as the contract lists", () => {
      assert.equal(again(notSent({}, { againAfterMs: 0 })), 0);
      assert.equal(again(failed(declined, { againAfterMs: 1_500.2 })), 1_501);
      assert.equal(again(failed(declined, { againAfterMs: 5, cost: { usd_cents: 1n } })), 5);
    });

    test("and not where something may have happened, or nothing is said", () => {
      for (const report of [
        failed({ code: "half_done" }, { againAfterMs: 5 }),
        accepted(proof),
        { ...accepted(proof), againAfterMs: 5 },
        notSent({}),
        failed(declined),
      ]) {
        assert.equal(again(report), null);
      }
    });

    test("and a time that is none asks for nothing, whatever it is", () => {
      for (const ms of [-1, Number.NaN, Number.NEGATIVE_INFINITY, "5", null, {}]) {
        assert.equal(again(notSent({}, { againAfterMs: ms as number })), null);
      }
      assert.equal(again(notSent({}, { againAfterMs: Number.POSITIVE_INFINITY })), 31_536_000_000);
    });
  });

  test("a fence releases like what was not sent", () => {
    assert.deepEqual(settledBy(decideNoEffect(fenced({}), RESERVED, NO_SECRETS).settlements), RELEASED);
  });
});

describe("a report from which nothing may be concluded", () => {
  const UNRESOLVED: Readonly<Record<string, readonly [report: unknown, reason: RegExp]>> = {
    unknown: [unknown("reset\0 while reading"), /^reset\ufffd while reading$/],
    "a refusal that the contract does not list": [
      failed({ code: "odd" }),
      /failed as odd, which the contract does not list/,
    ],
    "a refusal named like something every object has": [failed({ code: "toString" }), /does not list/],
    "a refusal without a code": [{ report: "failed", evidence: {} }, /failed as undefined/],
    "a report of another version": [{ report: "reached", evidence: {} }, /a report reached/],
    "a report of reconciliation": [fenced({}), /a report fenced/],
    "an empty object": [{}, /a report undefined/],
    "a string": ["accepted", /accepted/],
    "a boolean": [true, /true/],
    "an HTTP status": [200, /200/],
  };
  for (const [what, [report, reason]] of Object.entries(UNRESOLVED)) {
    test(what, () => {
      const decision = decideOutcome(report as DispatchReport<unknown>, rulesOf(), RESERVED);
      assert.equal(decision.decision, "unresolved");
      assert.match(decision.decision === "unresolved" ? decision.reason : "", reason);
    });
  }

  test("no report at all, or one that cannot be read, is the caller's fault to catch and never an outcome", () => {
    const unreadable = new Proxy({}, { get: () => assert.fail("read") });
    for (const report of [undefined, null, unreadable]) {
      assert.throws(() => decideOutcome(report as unknown as DispatchReport<unknown>, rulesOf(), RESERVED));
    }
  });
});

describe("settling", () => {
  const amounts = fc.dictionary(fc.stringMatching(/^[a-z][a-z0-9_]{0,3}$/), fc.bigInt(0n, 1_000n), { maxKeys: 4 });

  test("what is settled is never above what was reserved, and settled and overrun together are what was measured", () => {
    fc.assert(
      fc.property(amounts, amounts, (reserved, cost) => {
        const { settlements } = outcomeOf(decideOutcome(accepted(proof, { cost }), rulesOf(), reserved));
        assert.deepEqual(
          settlements.map(({ unit }) => unit).sort(),
          [...new Set([...Object.keys(reserved), ...Object.keys(cost)])].sort(),
        );
        for (const { unit, settled, overrun, source } of settlements) {
          const held = reserved[unit] ?? 0n;
          assert.ok(settled >= 0n && settled <= held && overrun >= 0n);
          assert.ok(overrun === 0n || settled === held); // nothing is overrun while room is left
          assert.equal(settled + overrun, cost[unit] ?? held);
          assert.equal(source, unit in cost ? "measured" : "maximum");
        }
      }),
    );
  });

  test("what is released settles nothing, of every unit that was reserved", () => {
    fc.assert(
      fc.property(amounts, (reserved) => {
        const { settlements } = outcomeOf(decideOutcome(notSent({}), rulesOf(), reserved));
        assert.deepEqual(
          settlements,
          Object.keys(reserved).map((unit) => ({ unit, settled: 0n, overrun: 0n, source: "none" })),
        );
      }),
    );
  });
});
