/** What `explain` says of what stands against an effect, and the command that helps: one for each thing that is waited for. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Explained, helpingCommand, type Standing, verdictWords } from "../../src/cli/explain-words.ts";
import { DENIALS, type DenialCode } from "../../src/core/denial.ts";
import type { AuditEffect } from "../../src/store/audit-schema.ts";

const EXPLAINED: Explained = {
  effect: {
    effect_id: "01a22fcd-96b5-7657-af0d-b444c4cb5fec",
    operation: "charge_card",
    operation_version: 2,
    task_name: "customers/42",
  } as AuditEffect,
  operation: undefined,
  taskNames: new Map([["t1", "ana's"]]),
  now: new Date(0),
};

function denied(code: DenialCode, detail: Readonly<Record<string, string>> = {}): Standing {
  return { code, detail, waitingFor: DENIALS[code] };
}

test("each thing that a person can end has the command that does", () => {
  const budget = { task: "t1", unit: "usd_cents", needed: "2", left: "1" };
  const cases: readonly (readonly [Standing, string | null])[] = [
    [denied("approval_required"), "pg-effects approval approve c4cb5fec --key …"],
    [denied("budget_held", budget), "pg-effects budget set 'ana'\\''s' usd_cents=… --reason …"],
    [denied("budget_missing", { unit: "mails" }), "pg-effects budget set customers/42 mails=… --reason …"],
    [denied("doubt_limit"), "pg-effects reconcile --operation charge_card --deadline 15m"],
    [denied("lane_busy"), "pg-effects unresolved"],
    [denied("paused", { scope: "all", target: "" }), "pg-effects resume --all --reason …"],
    [denied("paused", { scope: "target", target: "a b" }), "pg-effects resume --target-prefix 'a b' --reason …"],
    [denied("implementation_changed", { changed: "implementation" }), "pg-effects worker"],
    [
      denied("implementation_changed", { runs: "a", allowed: "b" }),
      "pg-effects operation allow charge_card 2 --reason …",
    ],
    [denied("recovery_unacknowledged"), "pg-effects doctor"],
    [denied("not_yet"), null],
    [denied("task_revoked"), null],
  ];
  for (const [standing, command] of cases) assert.equal(helpingCommand(standing, EXPLAINED), command, standing.code);
});

test("what waits, what is declined, and what its request has declined are told apart", () => {
  assert.equal(verdictWords(denied("approval_required")), "waits for approval");
  assert.equal(verdictWords(denied("task_revoked")), "will be declined: task_revoked");
  assert.equal(
    verdictWords({ ...denied("approval_required"), waitingFor: null }),
    "would be declined: approval_required, as its request says",
  );
});
