import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  type ContractDeclaration,
  completeContract,
  laneOf,
  maximumCost,
  RECORD_BYTES_MAX,
  TIMER_MS_MAX,
} from "../../src/core/contract.ts";

const complete = (declared: unknown) => completeContract(declared as ContractDeclaration<never, never>);
const idempotency = { scope: "account", mismatch: "refused", concurrent: "safe", failure: "saved" } as const;

test("what is not declared is the weaker claim", () => {
  assert.deepEqual(complete({}), {
    dispatchTimeoutMs: 30_000,
    reconcileTimeoutMs: 30_000,
    expiresAfterMs: 86_400_000,
    idempotency: null,
    precondition: "none",
    fence: null,
    absence: null,
    failures: {},
    accepts: "the adapter reported acceptance",
    bindingBytesMax: 2_048,
    proofBytesMax: 4_096,
    preparedWithinMs: null,
    lanes: false,
    targetDelimiter: null,
    secrets: [],
    followMax: null,
    cleanup: "none",
  });
});

test("what is declared is what is registered", () => {
  const declared = {
    dispatchTimeoutMs: 1,
    reconcileTimeoutMs: 2,
    expiresAfterMs: 3,
    idempotency: { ...idempotency, retentionMs: 4 },
    precondition: "enforced",
    failures: { declined: { effect: "none" } },
    accepts: "the charge is booked",
    bindingBytesMax: 5,
    proofBytesMax: 6,
    preparedWithinMs: 7,
    targetDelimiter: "/",
    secrets: ["CARDS_KEY"],
    followMax: 8,
    cleanup: "required",
  };
  const functions = { lane: () => "42", absence: { fence: { retentionMs: "kept" } } };
  assert.deepEqual(complete({ ...declared, ...functions }), {
    ...declared,
    lanes: true,
    fence: { retentionMs: "kept" },
    absence: null,
  });
});

describe("the bounds", () => {
  const BOUNDED: Readonly<Record<string, readonly [largest: number, declare: (value: unknown) => unknown]>> = {
    dispatchTimeoutMs: [TIMER_MS_MAX, (dispatchTimeoutMs) => ({ dispatchTimeoutMs })],
    reconcileTimeoutMs: [TIMER_MS_MAX, (reconcileTimeoutMs) => ({ reconcileTimeoutMs })],
    expiresAfterMs: [Number.MAX_SAFE_INTEGER, (expiresAfterMs) => ({ expiresAfterMs })],
    "absence.fence.retentionMs": [Number.MAX_SAFE_INTEGER, (retentionMs) => ({ absence: { fence: { retentionMs } } })],
    preparedWithinMs: [Number.MAX_SAFE_INTEGER, (preparedWithinMs) => ({ preparedWithinMs })],
    "idempotency.retentionMs": [
      Number.MAX_SAFE_INTEGER,
      (retentionMs) => ({ idempotency: { ...idempotency, retentionMs } }),
    ],
    bindingBytesMax: [RECORD_BYTES_MAX, (bindingBytesMax) => ({ bindingBytesMax })],
    proofBytesMax: [RECORD_BYTES_MAX, (proofBytesMax) => ({ proofBytesMax })],
  };
  for (const [field, [largest, declare]] of Object.entries(BOUNDED)) {
    test(`${field} is an integer from 1 to ${largest}`, () => {
      for (const value of [1, largest]) assert.doesNotThrow(() => complete(declare(value)));
      for (const value of [0, -1, 1.5, largest + 1, Number.NaN, Number.POSITIVE_INFINITY, "1", null]) {
        if (value === null && !field.includes(".")) continue; // null is "not declared", like undefined
        assert.throws(() => complete(declare(value)), { code: "contract_invalid" }, `${field} ${value}`);
      }
    });
  }

  test("a timer that Node would fire at once is refused", () => assert.equal(TIMER_MS_MAX, 2 ** 31 - 1));
});

test("it follows by itself 0 to 100 times", () => {
  for (const followMax of [0, 100]) assert.equal(complete({ followMax }).followMax, followMax);
  for (const followMax of [-1, 1.5, 101, Number.NaN, "1"]) {
    assert.throws(() => complete({ followMax }), { code: "contract_invalid" });
  }
});

test("a cleanup is required, or there is none", () => {
  assert.throws(() => complete({ cleanup: "perhaps" }), { code: "contract_invalid" });
});

test("absence is conclusive after a time, once somebody has ended the dispatch", () => {
  const claim = { conclusiveAfterMs: 0, endedBy: "recipient" };
  const { absence, fence } = complete({ absence: claim });
  assert.deepEqual({ absence, fence }, { absence: claim, fence: null });
  for (const wrong of [{ conclusiveAfterMs: -1 }, { conclusiveAfterMs: 1.5 }, { endedBy: "nobody" }]) {
    assert.throws(() => complete({ absence: { ...claim, ...wrong } }), { code: "contract_invalid" });
  }
});

test("a delimiter of targets is one character", () => {
  for (const targetDelimiter of ["/", ":", "→"]) assert.doesNotThrow(() => complete({ targetDelimiter }));
  for (const targetDelimiter of ["", "//"]) {
    assert.throws(() => complete({ targetDelimiter }), { code: "contract_invalid" });
  }
});

test("a lane is a short text of the input, and there is none where the contract has none", () => {
  const lane = (declare: (input: { customer: string }) => unknown, customer: string) =>
    laneOf({ lane: declare } as ContractDeclaration<{ customer: string }, never>, { customer });
  assert.equal(
    lane(({ customer }) => customer, "42"),
    "42",
  );
  assert.equal(laneOf({}, {}), null);
  for (const wrong of [undefined, null, 42, "", "x".repeat(201)]) {
    assert.throws(() => lane(() => wrong, "42"), { code: "contract_invalid" });
  }
});

describe("the maximum cost", () => {
  const cost = (declare: (input: { cents: number }) => unknown) =>
    maximumCost({ cost: declare } as ContractDeclaration<{ cents: number }, never>, { cents: 4_000 });

  test("is what the contract says of the input, and nothing where it says nothing", () => {
    assert.deepEqual(
      cost(({ cents }) => ({ usd_cents: BigInt(cents) })),
      { usd_cents: 4_000n },
    );
    assert.deepEqual(maximumCost({}, {}), {});
  });

  test("that is no amount is refused", () => {
    for (const amounts of [{ usd_cents: 4_000 }, { usd_cents: -1n }, { "usd cents": 1n }, null, undefined]) {
      assert.throws(() => cost(() => amounts), { code: "amount_invalid" });
    }
  });
});
