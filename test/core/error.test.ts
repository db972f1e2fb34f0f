import assert from "node:assert/strict";
import { test } from "node:test";
import { LedgerError, notBuilt } from "../../src/core/error.ts";

test("an error carries its code, the next step, the effect and what caused it", () => {
  const cause = new Error("reset");
  const error = new LedgerError("effect_unknown", "there is none", { hint: "look", effectId: "effect-1", cause });
  assert.ok(error instanceof Error && error.name === "LedgerError");
  assert.deepEqual(
    [error.code, error.hint, error.effectId, error.cause],
    ["effect_unknown", "look", "effect-1", cause],
  );
});

test("what is not given is not there", () => {
  const error = new LedgerError("effect_unknown", "there is none");
  assert.deepEqual([error.hint, error.effectId, "cause" in error], [undefined, undefined, false]);
});

test("what is not built yet has the code by which SQL says so", () => assert.equal(notBuilt("lane").code, "0A000"));
