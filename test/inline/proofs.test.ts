/**
 * Proofs that cannot be kept (protocol, section 8; cases 26 and 27): the intent stands, the call rejects with
 * EffectUnresolvedError, and the next call asks. Never silently another value, never lost as a crash, never run again.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { InlineFunctions } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { calls, lost, openHost, unresolved } from "./calls.ts";

const subject = await openTestLedger();
const { effect } = openHost(subject);

class Charge {
  readonly id = "ch_1";
}

/** What no record can carry as it is. Null stands apart: of a reconcile it is an answer. */
const UNUSABLE: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  "a function": () => () => "ch_1",
  "a symbol": () => Symbol("ch_1"),
  "a bigint": () => 1n,
  "an object with undefined": () => ({ id: undefined }),
  "an array with a hole": () => new Array(1),
  "a date": () => new Date(0),
  "a map": () => new Map([["id", 1]]),
  "a boxed number": () => Object(1),
  "a class's object": () => new Charge(),
  "an object with toJSON": () => ({ id: 1, toJSON: () => ({ id: 2 }) }),
  NaN: () => Number.NaN,
  "1e400": () => Number("1e400"),
  "2^53": () => 2 ** 53,
  "U+0000": () => "a\0b",
  "half a surrogate pair": () => "\ud800",
  "a cycle": () => {
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    return cycle;
  },
  "65 levels": () => JSON.parse(`${"[".repeat(65)}${"]".repeat(65)}`),
  "65,537 bytes of emoji": () => `${"🙂".repeat(16_383)}abc`,
  "a proxy that throws on every read": () =>
    new Proxy(
      {},
      {
        ownKeys: () => assert.fail("not to be read"),
        getPrototypeOf: () => assert.fail("not to be read"),
        getOwnPropertyDescriptor: () => assert.fail("not to be read"),
      },
    ),
};

/** As JavaScript calls it, which no compiler keeps from it. */
const unchecked = (functions: { run: () => unknown; reconcile: () => unknown }) =>
  functions as unknown as InlineFunctions<string>;

const { ledger } = subject;
const call = (name: string, run: () => unknown, reconcile: () => unknown) =>
  ledger.run("order-42").effect(name, unchecked({ run, reconcile }), { runTimeoutMs: 0 });

async function reasonOf(name: string): Promise<string> {
  return subject.value(
    "select v.detail ->> 'reason' from audit.events v join audit.effects e using (effect_id) where e.name = $1 and v.event = 'unresolved'",
    [name],
  );
}

describe("run returns", () => {
  for (const [what, make] of Object.entries({ ...UNUSABLE, null: () => null })) {
    test(`${what}: unresolved, and the next call asks`, async () => {
      const name = `run: ${what}`;
      await assert.rejects(call(name, make, assert.fail), unresolved);
      assert.match(await reasonOf(name), /^proof_unusable: /);
      const next = calls({ reconcile: () => ({ receipt: "r2" }) });
      assert.equal((await effect(name, next)).outcome, "accepted");
      assert.deepEqual([next.ran(), next.asked()], [0, 1]);
    });
  }
});

describe("reconcile returns", () => {
  for (const [what, make] of Object.entries(UNUSABLE)) {
    test(`${what}: nothing is recorded, and the next call asks again`, async () => {
      const name = `reconcile: ${what}`;
      await assert.rejects(effect(name, calls({ run: lost })), unresolved);
      await assert.rejects(call(name, assert.fail, make), unresolved);
      assert.equal(await subject.value("select state from audit.effects where name = $1", [name]), "admitted");
      assert.equal((await effect(name, calls({ reconcile: () => ({ receipt: "r2" }) }))).outcome, "accepted");
    });
  }
});

test("65,536 bytes of emoji, zero, false, an empty text, an empty list and -0 are proofs, and come back as they are", async () => {
  for (const [place, proof] of [
    `${"🙂".repeat(16_383)}ab`,
    0,
    false,
    "",
    [],
    {},
    { nested: [null, 1.5, "é"] },
  ].entries()) {
    const name = `kept ${place}`;
    assert.deepEqual(await call(name, () => proof, assert.fail), { outcome: "accepted", proof, via: "run" });
    assert.deepEqual(await call(name, assert.fail, assert.fail), { outcome: "accepted", proof, via: "run" });
  }
  assert.deepEqual(await call("-0", () => -0, assert.fail), { outcome: "accepted", proof: 0, via: "run" });
});
