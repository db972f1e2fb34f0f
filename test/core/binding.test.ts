import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { type BindingParts, makeBinding, readBinding } from "../../src/core/binding.ts";
import { bindingDigest, evidenceDigest, payloadDigest, sha256 } from "../../src/core/digest.ts";

const PARTS: BindingParts = {
  ledger: "0192-ledger",
  effect: "0192-effect",
  operation: "charge_card",
  version: 1,
  implementation: "a".repeat(64),
  release: "2026.1",
  account: "acct_1",
  target: "customer:42",
  precondition: { revision: 7 },
  task: "0192-task",
  subject: "customer:42",
  actor: "shop",
  policy: "ordinary",
  policy_revision: 1,
  expires_at_ms: 1_800_000_000_000,
  payload: { cents: 4_000, to: "A" },
  maximumCost: { usd_cents: 4_000n },
  preview: "charge customer 42",
  salt: Buffer.alloc(16, 1),
  bindingBytesMax: 2_048,
};
const digestOf = (changed: Partial<BindingParts> = {}) => makeBinding({ ...PARTS, ...changed }).digest.toString("hex");

/** Other values for each bound part. `bindingBytesMax` is a bound, not bound. */
const OTHERS: { readonly [Part in Exclude<keyof BindingParts, "bindingBytesMax">]: fc.Arbitrary<BindingParts[Part]> } =
  {
    ledger: fc.uuid(),
    effect: fc.uuid(),
    operation: fc.stringMatching(/^[a-z][a-z0-9_]{0,20}$/),
    version: fc.integer({ min: 2 }),
    implementation: fc.stringMatching(/^[b-f0-9]{64}$/),
    release: fc.stringMatching(/^v[0-9]{1,5}$/),
    account: fc.option(fc.uuid()),
    target: fc.uuid(),
    precondition: fc.oneof(fc.constant(null), fc.integer(), fc.record({ revision: fc.integer({ min: 8 }) })),
    task: fc.uuid(),
    subject: fc.option(fc.uuid()),
    actor: fc.uuid(),
    policy: fc.uuid(),
    policy_revision: fc.integer({ min: 2 }),
    expires_at_ms: fc.integer({ min: 1, max: 1_000_000 }),
    payload: fc.oneof(
      fc.record({ cents: fc.integer({ min: 4_001 }), to: fc.constant("A") }), // another amount
      fc.record({ cents: fc.constant(4_000), to: fc.uuid() }), // another recipient
      fc.record({ cents: fc.constant(4_000), to: fc.constant("A"), currency: fc.constant("usd") }), // a defaulted field
    ),
    maximumCost: fc.oneof(
      fc.constant({}),
      fc.record({ usd_cents: fc.bigInt(0n, 3_999n) }),
      fc.record({ usd_cents: fc.constant(4_000n), mails: fc.constant(0n) }),
    ),
    preview: fc.uuid(),
    salt: fc
      .uint8Array({ minLength: 16, maxLength: 16 })
      .filter((salt) => salt[0] !== 1)
      .map(Buffer.from),
  };

describe("one digest covers everything that is bound", () => {
  for (const [part, others] of Object.entries(OTHERS)) {
    test(`another ${part} is another digest`, () => {
      fc.assert(
        fc.property(others as fc.Arbitrary<unknown>, (other) => {
          assert.notEqual(digestOf({ [part]: other }), digestOf());
        }),
      );
    });
  }

  test("the order of keys is not bound", () => {
    const reordered = Object.fromEntries(Object.entries(PARTS).reverse()) as unknown as BindingParts;
    assert.equal(makeBinding(reordered).digest.toString("hex"), digestOf());
    assert.equal(digestOf({ payload: { to: "A", cents: 4_000 } }), digestOf());
  });

  test("what is read back is what was bound, and the payload is in it by its digest only", () => {
    const binding = makeBinding(PARTS);
    const { payload, maximumCost, salt, bindingBytesMax, ...bound } = PARTS;
    assert.deepEqual(readBinding(binding.bytes.toString("utf8")), {
      ...bound,
      payload_digest: payloadDigest(salt, binding.payload).toString("hex"),
      maximum_cost: { usd_cents: "4000" },
    });
    assert.equal(binding.payload.toString("utf8"), '{"cents":4000,"to":"A"}');
  });
});

describe("digests", () => {
  const bytes = Buffer.from('{"cents":4000}');

  test("the same bytes digest differently as binding, payload and evidence", () => {
    const digests = [bindingDigest(bytes), payloadDigest(Buffer.alloc(0), bytes), evidenceDigest(bytes), sha256(bytes)];
    assert.equal(new Set(digests.map((digest) => digest.toString("hex"))).size, digests.length);
  });

  test("the prefixes are those that the database recomputes with", () => {
    assert.deepEqual(bindingDigest(bytes), sha256("pg-effects/binding/1\n", bytes));
    assert.deepEqual(payloadDigest(Buffer.from("salt"), bytes), sha256("pg-effects/payload/1\nsalt", bytes));
    assert.deepEqual(evidenceDigest(bytes), sha256("pg-effects/evidence/1\n", bytes));
  });

  test("a short payload cannot be found by trying: its digest depends on the salt", () => {
    const salts = [Buffer.alloc(16, 1), Buffer.alloc(16, 2)];
    assert.notDeepEqual(...(salts.map((salt) => payloadDigest(salt, bytes)) as [Buffer, Buffer]));
  });
});

describe("bounds and what a person is shown", () => {
  test("a binding of exactly the contract's bytes is made, one byte less room refuses it", () => {
    const { bytes } = makeBinding(PARTS);
    assert.equal(makeBinding({ ...PARTS, bindingBytesMax: bytes.length }).bytes.length, bytes.length);
    assert.throws(() => makeBinding({ ...PARTS, bindingBytesMax: bytes.length - 1 }), { code: "binding_too_large" });
  });

  test("the bound counts bytes of UTF-8, not characters", () => {
    const plain = makeBinding({ ...PARTS, target: "x".repeat(100) }).bytes.length;
    assert.equal(makeBinding({ ...PARTS, target: "\u{1f600}".repeat(100) }).bytes.length, plain + 300);
  });

  test("a payload is not part of the bound, so a large one is bound by its digest", () => {
    const binding = makeBinding({ ...PARTS, payload: "x".repeat(100_000) });
    assert.equal(binding.bytes.length, makeBinding(PARTS).bytes.length);
  });

  test("control and bidirectional characters of the preview are bound and shown as inert ones", () => {
    const { preview } = readBinding(
      makeBinding({ ...PARTS, preview: "pay \u202e0004\u2066 to\u0007 A\u001b[2J\nnow" }).bytes.toString("utf8"),
    );
    assert.equal(preview, "pay \ufffd0004\ufffd to\ufffd A\ufffd[2J now");
  });

  test("what JSON cannot carry faithfully is not bound", () => {
    for (const changed of [{ payload: { at: new Date(0) } }, { precondition: undefined }, { target: "\ud800" }]) {
      assert.throws(() => digestOf(changed), { code: "input_unfaithful" });
    }
  });
});
