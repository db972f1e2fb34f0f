/** Which approvals count, and for what: case 13 of the cases that must come out right. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  type Approvable,
  type ApprovalFacts,
  countApprovals,
  readStatement,
  STATEMENT_PREFIX,
  whyNotCounted,
} from "../../src/core/approval.ts";
import { makeBinding } from "../../src/core/binding.ts";
import { makeSigner } from "../harness/signer.ts";
import { NOW_MS } from "./admission-facts.ts";

const LEDGER = "00000000-0000-4000-8000-000000000001";
const EPOCH = "00000000-0000-4000-8000-000000000002";
const EFFECT = "00000000-0000-4000-8000-000000000003";
const DIGEST = "ab".repeat(32);
const ana = makeSigner();

function body(changed: object = {}) {
  return {
    digest: DIGEST,
    effect: EFFECT,
    epoch: EPOCH,
    expires_at_ms: NOW_MS + 1,
    ledger: LEDGER,
    maximum_cost: { usd_cents: "4000" },
    operation: "charge_card",
    stated_at_ms: NOW_MS - 1,
    version: 1,
    ...changed,
  };
}
const bytes = (json: unknown) =>
  Buffer.from(`${STATEMENT_PREFIX}${typeof json === "string" ? json : JSON.stringify(json)}`);

function approval(statement: Buffer = bytes(body()), changed: Partial<ApprovalFacts> = {}): ApprovalFacts {
  return {
    approvalId: "approval-1",
    approver: "ana",
    publicKey: Buffer.from(ana.publicKey, "hex"),
    keyRevoked: false,
    revoked: false,
    statement,
    signature: ana.sign(statement),
    ...changed,
  };
}

const WANTED: Approvable = {
  nowMs: NOW_MS,
  ledger: LEDGER,
  epoch: EPOCH,
  effectId: EFFECT,
  digest: DIGEST,
  cost: { usd_cents: 4_000n },
  requesters: ["shop", "shop_login"],
  policy: { approvers: ["ana", "ben", "shop"], requesterExcluded: true },
};

describe("an approval", () => {
  test("of exactly this counts", () => assert.equal(whyNotCounted(approval(), WANTED), null));

  const other = Buffer.from(makeSigner().publicKey, "hex");
  const flipped = (buffer: Uint8Array) =>
    Buffer.from(buffer.map((byte, place) => (place === buffer.length - 3 ? byte ^ 1 : byte)));
  const NOT: readonly (readonly [what: string, given: ApprovalFacts, why: ReturnType<typeof whyNotCounted>])[] = [
    ["that was revoked", approval(undefined, { revoked: true }), "approval_revoked"],
    ["by a key that was revoked", approval(undefined, { keyRevoked: true }), "key_revoked"],
    ["by somebody whom the policy does not name", approval(undefined, { approver: "cyd" }), "approver_not_named"],
    ["by the one who asked", approval(undefined, { approver: "shop" }), "approver_is_requester"],
    ["by another key", approval(undefined, { publicKey: other }), "signature_wrong"],
    [
      "with one byte of its signature changed",
      { ...approval(), signature: flipped(approval().signature) },
      "signature_wrong",
    ],
    [
      "with one byte of its statement changed",
      { ...approval(), statement: bytes(body({ version: 2 })) },
      "signature_wrong",
    ],
    ["of another ledger", approval(bytes(body({ ledger: EPOCH }))), "ledger_differs"],
    ["of an earlier recovery epoch", approval(bytes(body({ epoch: LEDGER }))), "epoch_differs"],
    ["of another effect", approval(bytes(body({ effect: LEDGER }))), "effect_differs"],
    ["of another binding", approval(bytes(body({ digest: "cd".repeat(32) }))), "binding_differs"],
    ["up to a lower cost", approval(bytes(body({ maximum_cost: { usd_cents: "3999" } }))), "cost_above"],
    ["of another unit", approval(bytes(body({ maximum_cost: { eur_cents: "4000" } }))), "cost_above"],
    ["that has expired", approval(bytes(body({ expires_at_ms: NOW_MS }))), "approval_expired"],
  ];
  for (const [what, given, why] of NOT) {
    test(`${what} does not: ${why}`, () => assert.equal(whyNotCounted(given, WANTED), why));
  }

  const UNREADABLE: Readonly<Record<string, Buffer>> = {
    "without its first line": Buffer.from(JSON.stringify(body())),
    "that is no JSON": bytes("{"),
    "that is null": bytes("null"),
    "that is a list": bytes("[]"),
    "with a field more": bytes(body({ approved: true })),
    "with a field less": bytes({ ...body(), version: undefined }),
    "with an amount as a number": bytes(body({ maximum_cost: { usd_cents: 4000 } })),
    "with an amount in another notation": bytes(body({ maximum_cost: { usd_cents: "4e3" } })),
    "with an amount beyond a bigint": bytes(body({ maximum_cost: { usd_cents: "9223372036854775808" } })),
    "with an expiry that is no whole number": bytes(body({ expires_at_ms: 1.5 })),
  };
  for (const [what, statement] of Object.entries(UNREADABLE)) {
    test(`whose statement is one ${what} does not count, however well signed`, () => {
      assert.equal(whyNotCounted(approval(statement), WANTED), "statement_unreadable");
      assert.equal(readStatement(statement), null);
    });
  }

  test("with its keys in another order is the same statement", () => {
    const reordered = bytes(Object.fromEntries(Object.entries(body()).reverse()));
    assert.equal(whyNotCounted(approval(reordered), WANTED), null);
  });
});

test("one person counts once, by the approval that lasts longest; others say why they do not", () => {
  const ben = makeSigner();
  const longer = bytes(body({ expires_at_ms: NOW_MS + 5_000 }));
  const counted = countApprovals(
    [
      approval(undefined, { approvalId: "short" }),
      approval(longer, { approvalId: "long" }),
      approval(undefined, {
        approvalId: "ben",
        approver: "ben",
        publicKey: Buffer.from(ben.publicKey, "hex"),
        signature: ben.sign(bytes(body())),
      }),
      approval(undefined, { approvalId: "gone", revoked: true }),
    ],
    WANTED,
  );
  assert.deepEqual(counted, { counted: ["long", "ben"], expiresAtMs: NOW_MS + 1, not: { gone: "approval_revoked" } });
});

describe("a binding that was approved", () => {
  const parts = {
    ledger: LEDGER,
    effect: EFFECT,
    operation: "charge_card",
    version: 1,
    implementation: "i",
    release: "r",
    account: null,
    target: "cards/42",
    precondition: null,
    task: "t",
    subject: null,
    actor: "shop",
    policy: "charges",
    policy_revision: 1,
    expires_at_ms: NOW_MS + 1_000,
    payload: { to: "cards/42", cents: 4_000 },
    maximumCost: { usd_cents: 4_000n },
    preview: "charge 4000",
    salt: Buffer.alloc(16, 7),
    bindingBytesMax: 2_048,
  };
  const digestOf = (changed: object = {}) => makeBinding({ ...parts, ...changed }).digest.toString("hex");
  const approved = approval(bytes(body({ digest: digestOf() })));
  const CHANGED: Readonly<Record<string, object>> = {
    "another amount": { payload: { to: "cards/42", cents: 4_001 } },
    "another recipient": { payload: { to: "cards/43", cents: 4_000 } },
    "another target": { target: "cards/43" },
    "a field that a default added": { payload: { to: "cards/42", cents: 4_000, currency: "usd" } },
    "another preview": { preview: "charge 4000, please" },
    "another expiry": { expires_at_ms: NOW_MS + 2_000 },
  };
  for (const [what, changed] of Object.entries(CHANGED)) {
    test(`and has ${what} is not the approved one; the true one still is`, () => {
      assert.equal(whyNotCounted(approved, { ...WANTED, digest: digestOf(changed) }), "binding_differs");
      assert.equal(whyNotCounted(approved, { ...WANTED, digest: digestOf() }), null);
    });
  }

  test("and has its keys in another order is the approved one", () => {
    const reordered = digestOf({ payload: { cents: 4_000, to: "cards/42" } });
    assert.equal(whyNotCounted(approved, { ...WANTED, digest: reordered }), null);
  });
});
