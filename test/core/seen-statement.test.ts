/** What an approver sees is what is signed: a statement is read only beside the bytes that its digest is of. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { STATEMENT_PREFIX } from "../../src/core/approval.ts";
import { makeBinding } from "../../src/core/binding.ts";
import { seenStatement } from "../../src/core/seen-statement.ts";

const LEDGER = "11111111-1111-4111-8111-111111111111";
const EFFECT = "22222222-2222-7222-8222-222222222222";

function bind(target: string) {
  return makeBinding({
    ledger: LEDGER,
    effect: EFFECT,
    operation: "charge_card",
    version: 1,
    implementation: "a".repeat(64),
    release: "test",
    account: "acct_1",
    target,
    payload: { cents: 4_000 },
    precondition: null,
    task: "shop",
    subject: null,
    actor: "app",
    policy: "charges",
    policy_revision: 1,
    maximumCost: { usd_cents: 4_000n, mails: 1n },
    expires_at_ms: 2_000_000_000_000,
    preview: `charge ${target}`,
    salt: Buffer.alloc(16),
    bindingBytesMax: 2_048,
  });
}
const BINDING = bind("customer:42");
const BODY = {
  digest: BINDING.digest.toString("hex"),
  effect: EFFECT,
  epoch: LEDGER,
  expires_at_ms: 2_000_000_000_000,
  ledger: LEDGER,
  maximum_cost: { usd_cents: "4000", mails: "1" },
  operation: "charge_card",
  stated_at_ms: 1_900_000_000_000,
  version: 1,
};
const statement = (change: object = {}) => Buffer.from(`${STATEMENT_PREFIX}${JSON.stringify({ ...BODY, ...change })}`);
const bound = { effectId: EFFECT, version: BINDING.version, bytes: BINDING.bytes };

test("the bytes are read, and nothing else: target, account and preview are the binding's own", () => {
  const { binding, statement: read } = seenStatement(statement(), bound);
  assert.partialDeepStrictEqual(binding, { target: "customer:42", account: "acct_1", preview: "charge customer:42" });
  assert.deepEqual(read.maximumCost, { usd_cents: 4_000n, mails: 1n });
});

describe("is not to be signed:", () => {
  const OTHER_ID = LEDGER.replaceAll("1", "3");
  const other = bind("customer:43");
  const cases: readonly (readonly [what: string, bytes: Buffer, bound: object])[] = [
    ["a statement about other bytes", statement(), { bytes: other.bytes }],
    ["one about another digest", statement({ digest: "0".repeat(64) }), {}],
    ["one about another effect", statement({ effect: OTHER_ID }), {}],
    ["one of another ledger", statement({ ledger: OTHER_ID }), {}],
    ["one of another operation", statement({ operation: "refund_card" }), {}],
    ["one of another version", statement({ version: 2 }), {}],
    ["one with a higher cost", statement({ maximum_cost: { usd_cents: "4001", mails: "1" } }), {}],
    ["one that leaves a cost out", statement({ maximum_cost: { usd_cents: "4000" } }), {}],
    ["a binding of a form that this version does not know", statement(), { version: 2 }],
    ["what is no statement", Buffer.from("approve everything"), {}],
  ];
  for (const [what, bytes, change] of cases) {
    test(what, () => {
      assert.throws(() => seenStatement(bytes, { ...bound, ...change }), {
        code: "statement_differs",
        effectId: EFFECT,
      });
    });
  }
});
