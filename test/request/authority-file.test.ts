/** A file of authority: what may stand in it, and how a fault is named. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { describe, test } from "node:test";
import { repeatedKey } from "../../src/core/repeated-key.ts";
import { parseAuthorityFile } from "../../src/request/authority-file.ts";

const FORMAT = "pg-effects/authority/1";
const parse = (file: object) => parseAuthorityFile(JSON.stringify({ format: FORMAT, ...file }));

/** The message of a refusal. */
function fault(file: object): string {
  let message = "";
  assert.throws(
    () => parse(file),
    (error: Error & { code?: string }) => {
      message = error.message;
      return error.code === "authority_file_invalid";
    },
  );
  return message;
}

describe("a fault is named with its path:", () => {
  const policy = { name: "p", operation: "charge_card", version: 1 };
  const cases: readonly (readonly [what: string, file: object, message: RegExp])[] = [
    ["another format", { format: "pg-effects/authority/2" }, /^format: /],
    ["a field that there is not", { task: [] }, /^the file: .*"task"/],
    [
      "an amount that is a number",
      { tasks: [{ name: "t", budgets: { usd_cents: 5 } }] },
      /^tasks\[0\]\.budgets\.usd_cents: /,
    ],
    [
      "an amount beyond bigint",
      { tasks: [{ name: "t", budgets: { usd_cents: "9223372036854775808" } }] },
      /is above 9223372036854775807/,
    ],
    ["a unit that is none", { tasks: [{ name: "t", budgets: { USD: "5" } }] }, /^tasks\[0\]\.budgets/],
    ["a moment without a zone", { tasks: [{ name: "t", deadline: "2030-01-01T00:00:00" }] }, /^tasks\[0\]\.deadline: /],
    [
      "protection taken back",
      { operations: [{ operation: "charge_card", protected: false }] },
      /^operations\[0\]\.protected: /,
    ],
    [
      "an implementation cut short",
      { operations: [{ operation: "charge_card", versions: [{ version: 1, allowed_implementation: "abc" }] }] },
      /^operations\[0\]\.versions\[0\]\.allowed_implementation: is no digest/,
    ],
    ["an approver without a key", { approvers: [{ approver: "ana" }] }, /^approvers\[0\]\.public_key: is missing/],
    [
      "a policy without its operation",
      { policies: [{ name: "p", version: 1 }] },
      /^policies\[0\]\.operation: is missing/,
    ],
    [
      "two kinds of target",
      { policies: [{ ...policy, target: "a", target_prefix: "b" }] },
      /^policies\[0\]\.target_prefix: /,
    ],
    ["the built-in policy", { policies: [{ ...policy, name: "ordinary" }] }, /^policies\[0\]\.name: /],
    ["an entry twice", { tasks: [{ name: "t" }, { name: "t" }] }, /^tasks\[1\]: t stands in the file twice/],
  ];
  for (const [what, file, message] of cases) {
    test(what, () => {
      assert.match(fault(file), message);
    });
  }

  test("several at once", () => {
    assert.match(fault({ actors: [{}], tasks: [{}] }), /actors\[0\]\.actor: .*; tasks\[0\]\.name: /);
  });

  test("a private key, of which nothing is repeated", () => {
    const { privateKey } = generateKeyPairSync("ed25519");
    const pem = privateKey.export({ format: "pem", type: "pkcs8" }).toString();
    const message = fault({ approvers: [{ approver: "ana", public_key: pem }] });
    assert.match(message, /^approvers\[0\]\.public_key: that is a private key/);
    assert.ok(!message.includes(pem.split("\n")[1] ?? ""));
  });
});

test("a public key may stand as PEM or as hex digits, and is the same key", () => {
  const { publicKey } = generateKeyPairSync("ed25519");
  const pem = publicKey.export({ format: "pem", type: "spki" }).toString();
  const hex = Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url").toString("hex");
  const { wanted } = parse({
    approvers: [
      { approver: "ana", public_key: pem },
      { approver: "ben", public_key: hex },
    ],
  });
  assert.deepEqual(
    wanted.approvers.map(({ public_key }) => public_key),
    [hex, hex],
  );
});

test("what is not mentioned in a policy is effects.add_policy's default", () => {
  const { wanted } = parse({ policies: [{ name: "p", operation: "charge_card", version: 1 }] });
  assert.partialDeepStrictEqual(wanted.policies[0]?.rules, {
    task: "default",
    costs: {},
    approvals_needed: 0,
    requester_excluded: true,
    target: null,
    expires_at: null,
  });
});

test("a key that stands twice is a fault, wherever it stands", () => {
  assert.equal(repeatedKey('{"a": 1, "b": [{"c": 1}, {"c": 2, "d": {"c": 1}}]}'), null);
  assert.equal(repeatedKey('{"a": "}{[\\"", "a": 2}'), "a");
  assert.equal(repeatedKey('[{"a": [1, [2, 3], {"x": {"y,": 1, "z": 2, "\\u0079,": 3}}]}]'), "[0].a[2].x.y,");
  const twice = `{"format": "${FORMAT}", "tasks": [{"name": "t", "budgets": {"usd_cents": "1", "usd_cents": "1000000"}}]}`;
  assert.throws(() => parseAuthorityFile(twice), {
    code: "authority_file_invalid",
    message: "tasks[0].budgets.usd_cents: stands twice in one object",
  });
});

test("what is not JSON is said to be not JSON", () => {
  assert.throws(() => parseAuthorityFile("{format: 1}"), { code: "json_invalid" });
});
