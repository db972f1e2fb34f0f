import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type Bound, choosePolicy, couldCover, covers, type Policy } from "../../src/core/policy.ts";
import { OWNERS } from "./admission-facts.ts";

const BOUND: Bound = {
  operation: "charge_card",
  version: 1,
  actor: "shop",
  lineage: ["root", "child"],
  target: "cards/42",
  cost: { usd_cents: 100n },
};

describe("what a policy covers", () => {
  const COVERS: readonly (readonly [what: string, policy: Partial<Policy>, covered: boolean])[] = [
    ["anything of its operation and version, in its task", {}, true],
    ["its own task, and what is under it", { taskId: "child" }, true],
    ["no other task", { taskId: "elsewhere" }, false],
    ["no other operation", { operation: "refund_card" }, false],
    ["no other version", { version: 2 }, false],
    ["its actor", { actor: "shop" }, true],
    ["no other actor", { actor: "till" }, false],
    ["the very target", { target: { match: "exact", text: "cards/42" } }, true],
    ["no target that only begins like it", { target: { match: "exact", text: "cards/4" } }, false],
    ["a beginning of targets", { target: { match: "prefix", text: "cards/" } }, true],
    ["no other beginning", { target: { match: "prefix", text: "card/" } }, false],
    ["its largest cost", { costs: { usd_cents: 100n } }, true],
    ["no cost above it", { costs: { usd_cents: 99n } }, false],
    ["no unit that it does not name", { costs: { eur_cents: 100n } }, false],
  ];
  for (const [what, changed, covered] of COVERS) {
    test(what, () => assert.equal(covers({ ...OWNERS, ...changed }, BOUND), covered));
  }

  test("before target and cost are known, what could be covered may be prepared", () => {
    const narrow = { ...OWNERS, target: { match: "exact", text: "cards/7" }, costs: {} } as const;
    assert.equal(couldCover(narrow, BOUND), true);
    assert.equal(couldCover({ ...narrow, actor: "till" }, BOUND), false);
  });

  test("what costs nothing needs no unit named", () => {
    assert.equal(covers({ ...OWNERS, costs: {} }, { ...BOUND, cost: {} }), true);
    assert.equal(covers({ ...OWNERS, costs: {} }, { ...BOUND, cost: { usd_cents: 0n } }), true);
  });
});

describe("of several that cover it", () => {
  /** Each goes before every later one. */
  const ORDER: readonly (readonly [why: string, policy: Partial<Policy>])[] = [
    ["it wants approval", { approvalsNeeded: 1 }],
    ["its target is exact", { target: { match: "exact", text: "cards/42" } }],
    ["its prefix is longer", { target: { match: "prefix", text: "cards/4" } }],
    ["it has a prefix", { target: { match: "prefix", text: "cards/" } }],
    ["it names the actor", { actor: "shop" }],
    ["its task is deeper", { taskId: "child", taskDepth: 2 }],
    ["its cost is lower", { costs: { usd_cents: 100n } }],
    ["it is older", { costs: { usd_cents: 200n }, addedAtMs: 1 }],
    ["it is left", { costs: { usd_cents: 200n }, addedAtMs: 2 }],
  ];
  const policies = ORDER.map(([why, changed], place) => ({
    ...OWNERS,
    costs: { usd_cents: 200n },
    ...changed,
    policyId: `${place}`,
    name: why,
  }));
  for (const [place, { name }] of policies.entries()) {
    test(`one goes first because ${name}`, () => {
      const left = policies.slice(place);
      assert.equal(choosePolicy(left, BOUND)?.name, name);
      assert.equal(choosePolicy([...left].reverse(), BOUND)?.name, name);
    });
  }

  test("one that does not cover it is not chosen, however narrow", () => {
    const other = { ...OWNERS, approvalsNeeded: 1, target: { match: "exact", text: "cards/43" } } as const;
    assert.equal(choosePolicy([other, OWNERS], BOUND), OWNERS);
    assert.equal(choosePolicy([other], BOUND), null);
    assert.equal(choosePolicy([], BOUND), null);
  });
});
