import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { z } from "zod";
import { defineOperation, invalid, isOperation, type OperationDefinition } from "../../src/core/operation.ts";
import { accepted, failed } from "../../src/core/report.ts";

type Definition = OperationDefinition<{ to: string }, { id: string }, { to: string }> & { readonly prepare?: never };
const DEFINITION: Definition = {
  name: "mail_send",
  version: 1,
  input: z.strictObject({ to: z.string() }),
  dispatch: () => accepted({ id: "1" }),
};
const define = (changed: object = {}) => defineOperation({ ...DEFINITION, ...changed } as Definition);

test("an operation is a function that carries its definition and its completed contract", () => {
  const operation = define({ contract: { dispatchTimeoutMs: 1_000 } });
  assert.equal(operation.definition.name, "mail_send");
  assert.equal(operation.contract.dispatchTimeoutMs, 1_000);
  assert.ok(isOperation(operation));
});

test("other functions and things are no operations", () => {
  for (const other of [() => {}, DEFINITION, null, undefined, "mail_send", { definition: {}, contract: {} }]) {
    assert.equal(isOperation(other), false);
  }
});

test("started as a plain task it throws and sends nothing", async () => {
  const operation = define({ dispatch: () => assert.fail("sent") });
  await assert.rejects(operation({ to: "a" }, {}), { code: "worker_required" });
});

describe("names and versions", () => {
  for (const name of ["a", "mail_send", "a0_", `a${"b".repeat(62)}`]) {
    test(`${name} is a name`, () => assert.equal(define({ name }).definition.name, name));
  }
  for (const name of [
    "",
    "Mail",
    "mail.send",
    "mail-send",
    "1mail",
    "_mail",
    "mail send",
    "mail\n",
    `a${"b".repeat(63)}`,
  ]) {
    test(`${JSON.stringify(name)} is none`, () => assert.throws(() => define({ name }), { code: "operation_invalid" }));
  }
  for (const version of [0, -1, 1.5, 2 ** 31, Number.NaN, "1", undefined]) {
    test(`${String(version)} is no version`, () =>
      assert.throws(() => define({ version }), { code: "operation_invalid" }));
  }
});

test("a cleanup is declared and implemented, or neither", () => {
  const cleanup = () => assert.fail("asked");
  assert.doesNotThrow(() => define({ contract: { cleanup: "required" }, cleanup }));
  assert.throws(() => define({ contract: { cleanup: "required" } }), { code: "contract_invalid" });
  assert.throws(() => define({ cleanup }), { code: "contract_invalid" });
});

test("versions whose effects it looks up are versions", () => {
  for (const reconciles of [[], [1], [1, 2]]) assert.doesNotThrow(() => define({ version: 2, reconciles }));
  for (const reconciles of [[0], [1.5], ["1"]]) {
    assert.throws(() => define({ reconciles }), { code: "operation_invalid" });
  }
});

test("a resubmission wants a contract that proves it harmless", () => {
  const resubmit = () => accepted({ id: "1" });
  const harmless = { scope: "account", retentionMs: 1, mismatch: "refused", concurrent: "safe", failure: "saved" };
  assert.doesNotThrow(() => define({ resubmit, contract: { idempotency: harmless } }));
  for (const weaker of [{ mismatch: "ignored" }, { concurrent: "unsafe" }, { failure: "executed" }]) {
    const contract = { idempotency: { ...harmless, ...weaker } };
    assert.throws(() => define({ resubmit, contract }), { code: "contract_invalid" });
  }
  assert.throws(() => define({ resubmit }), { code: "contract_invalid" });
});

describe("a fence", () => {
  const contract = { absence: { fence: { retentionMs: "kept" } } };
  const fence = () => assert.fail("asked");

  test("is declared and implemented, or neither", () => {
    assert.doesNotThrow(() => define({ contract, fence }));
    assert.throws(() => define({ contract }), { code: "contract_invalid" });
    assert.throws(() => define({ fence }), { code: "contract_invalid" });
  });
});

test("a refusal names its code by its evidence, which is kept", () => {
  assert.deepEqual(failed({ code: "declined", said: "no" } as { code: string }), {
    report: "failed",
    code: "declined",
    evidence: { code: "declined", said: "no" },
  });
});

test("an invalid request says why", () =>
  assert.deepEqual(invalid("no such customer"), { invalid: "no such customer" }));
