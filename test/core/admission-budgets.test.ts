import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { decideAdmissions } from "../../src/core/admission.ts";
import type { AdmissionFacts, BudgetFacts, EffectFacts } from "../../src/core/facts.ts";
import { budget, EFFECT, EXPIRES_AT_MS, FACTS, NOW_MS, withEffect, withTask } from "./admission-facts.ts";

/** A batch of effects, each with its cost, under these budgets. */
function batch(
  costs: readonly bigint[],
  budgets: readonly BudgetFacts[],
  changed: Partial<EffectFacts> = {},
): AdmissionFacts {
  const effects = costs.map((cost, place) => ({
    ...EFFECT,
    effectId: `effect-${place}`,
    cost: { usd_cents: cost },
    ...changed,
  }));
  return { ...FACTS, budgets, effects };
}
/** `admitted`, or the code, of each. */
function endsOf(facts: AdmissionFacts): readonly string[] {
  return decideAdmissions(facts).map((verdict) => ("code" in verdict ? verdict.code : verdict.verdict));
}

describe("a batch", () => {
  test("what one effect reserves, the next one finds reserved", () => {
    assert.deepEqual(endsOf(batch([60n, 40n, 1n], [budget("root", 100n)])), ["admitted", "admitted", "budget_held"]);
  });

  test("one that does not fit is denied alone", () => {
    assert.deepEqual(endsOf(batch([60n, 101n, 50n, 40n], [budget("root", 100n)])), [
      "admitted",
      "budget_exceeded",
      "budget_held",
      "admitted",
    ]);
  });

  test("what is denied for another reason reserves nothing", () => {
    const [first, second] = batch([100n, 100n], [budget("root", 100n)]).effects;
    assert.ok(first && second);
    const effects = [{ ...first, bytesMatch: false }, second];
    assert.deepEqual(endsOf({ ...FACTS, budgets: [budget("root", 100n)], effects }), ["binding_mismatch", "admitted"]);
  });

  test("the facts that were handed in are left as they were", () => {
    const facts = batch([60n], [budget("root", 100n)]);
    const before = structuredClone(facts.budgets);
    decideAdmissions(facts);
    assert.deepEqual(facts.budgets, before);
  });
});

describe("several ancestors", () => {
  const small = budget("root", 1_000n, { spent: 900n });

  test("a child without a limit of its own is bound by its root's", () => {
    assert.deepEqual(endsOf(batch([101n], [small])), ["budget_exceeded"]);
    assert.deepEqual(endsOf(batch([100n], [small])), ["admitted"]);
  });

  test("a child's larger limit raises nothing, its smaller one binds", () => {
    assert.deepEqual(endsOf(batch([101n], [small, budget("child", 10_000n)])), ["budget_exceeded"]);
    assert.deepEqual(endsOf(batch([51n], [small, budget("child", 50n)])), ["budget_exceeded"]);
  });

  test("every ancestor that budgets the unit is charged, and no other", () => {
    const budgets = [small, budget("child", 200n), budget("stranger", 0n), budget("child", 5n, { unit: "mails" })];
    const [verdict] = decideAdmissions(batch([100n], budgets));
    assert.ok(verdict?.verdict === "admitted");
    assert.deepEqual(verdict.charges, [
      { taskId: "root", unit: "usd_cents", amount: 100n },
      { taskId: "child", unit: "usd_cents", amount: 100n },
    ]);
  });

  test("a budget that is exceeded goes before one that is held, wherever they stand", () => {
    const held = budget("root", 100n, { reserved: 100n });
    assert.deepEqual(endsOf(batch([60n], [held, budget("child", 50n)])), ["budget_exceeded"]);
  });

  test("the denial names the task, the unit, what is needed and what is left", () => {
    const budgets = [budget("child", 100n, { spent: 10n, overrun: 5n, reserved: 30n })];
    const detailOf = (cost: bigint) => {
      const [verdict] = decideAdmissions(batch([cost], budgets));
      return verdict && "detail" in verdict ? verdict.detail : null;
    };
    assert.deepEqual(detailOf(86n), { task: "child", unit: "usd_cents", needed: "86", left: "85" });
    assert.deepEqual(detailOf(85n), { task: "child", unit: "usd_cents", needed: "85", left: "55" });
  });
});

test("a limit of zero blocks every positive cost, and no cost of zero or none", () => {
  const none = [budget("root", 0n)];
  assert.deepEqual(endsOf(batch([1n, 0n], none)), ["budget_exceeded", "admitted"]);
  assert.deepEqual(endsOf(batch([0n], none, { cost: {} })), ["admitted"]);
});

test("a unit that nobody budgets is charged to nobody", () => {
  const [verdict] = decideAdmissions(batch([1n], [budget("root", 0n)], { cost: { mails: 1n } }));
  assert.deepEqual(verdict?.verdict === "admitted" && verdict.charges, []);
});

test("amounts beyond what a double holds are compared exactly", () => {
  const limit = 9_007_199_254_740_993n; // 2^53 + 1
  assert.deepEqual(endsOf(batch([limit + 1n, limit], [budget("root", limit)])), ["budget_exceeded", "admitted"]);
});

const TASKS = ["root", "child", "grandchild"];
const UNITS = ["usd_cents", "mails"];
const amount = fc.bigInt(0n, 120n);
const anyBudget: fc.Arbitrary<BudgetFacts> = fc.record({
  taskId: fc.constantFrom(...TASKS),
  unit: fc.constantFrom(...UNITS),
  limit: amount,
  reserved: amount,
  spent: amount,
  overrun: fc.bigInt(0n, 20n),
  suspended: fc.constant(false),
});
const anyBatch: fc.Arbitrary<AdmissionFacts> = fc
  .record({
    budgets: fc.uniqueArray(anyBudget, { selector: ({ taskId, unit }) => `${taskId} ${unit}` }),
    effects: fc.array(
      fc.record({
        depth: fc.integer({ min: 1, max: TASKS.length }),
        cost: fc.dictionary(fc.constantFrom(...UNITS), amount),
        onDenial: fc.constantFrom("wait", "decline"),
      }),
      { maxLength: 12 },
    ),
  })
  .map(({ budgets, effects }) => ({
    ...withTask(FACTS, "grandchild", {}),
    budgets,
    effects: effects.map(({ depth, ...rest }, place) => ({
      ...EFFECT,
      ...rest,
      effectId: `effect-${place}`,
      lineage: TASKS.slice(0, depth),
    })),
  }));

test("whatever the batch, no budget is charged above its limit less what is spent, overrun and reserved", () => {
  fc.assert(
    fc.property(anyBatch, (facts) => {
      const charges = decideAdmissions(facts).flatMap((verdict) =>
        verdict.verdict === "admitted" ? verdict.charges : [],
      );
      for (const { taskId, unit, limit, spent, overrun, reserved } of facts.budgets) {
        const charged = charges
          .filter((charge) => charge.taskId === taskId && charge.unit === unit)
          .reduce((sum, charge) => sum + charge.amount, 0n);
        assert.ok(charged === 0n || charged <= limit - spent - overrun - reserved);
      }
    }),
    { numRuns: 500 },
  );
});

test("whatever the batch, what is denied for its budget could not have been admitted in its place", () => {
  fc.assert(
    fc.property(anyBatch, (facts) => {
      const verdicts = decideAdmissions(facts);
      const left = new Map(
        facts.budgets.map((each) => [
          `${each.taskId} ${each.unit}`,
          each.limit - each.spent - each.overrun - each.reserved,
        ]),
      );
      for (const [place, { cost, lineage }] of facts.effects.entries()) {
        const wanted = Object.entries(cost).flatMap(([unit, needed]) =>
          lineage.map((taskId) => [`${taskId} ${unit}`, needed] as const).filter(([key]) => left.has(key)),
        );
        const fits = wanted.every(([key, needed]) => needed <= (left.get(key) ?? 0n));
        assert.equal(verdicts[place]?.verdict === "admitted", fits);
        if (fits) for (const [key, needed] of wanted) left.set(key, (left.get(key) ?? 0n) - needed);
      }
    }),
    { numRuns: 500 },
  );
});

test("a permit expires with the smallest of its horizons", () => {
  const expiryOf = (facts: AdmissionFacts) => {
    const [verdict] = decideAdmissions(facts);
    return verdict?.verdict === "admitted" && verdict.permitExpiresAtMs;
  };
  assert.equal(expiryOf(FACTS), EXPIRES_AT_MS);
  fc.assert(
    fc.property(fc.integer({ min: 1 }), fc.integer({ min: 1 }), fc.integer({ min: 1 }), (binding, root, child) => {
      const facts = withTask(
        withTask(withEffect(FACTS, { expiresAtMs: NOW_MS + binding }), "root", { deadlineMs: NOW_MS + root }),
        "child",
        { deadlineMs: NOW_MS + child },
      );
      assert.equal(expiryOf(facts), NOW_MS + Math.min(binding, root, child));
    }),
  );
});
