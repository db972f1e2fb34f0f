import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { FenceClaim } from "../../src/core/contract.ts";
import { decideFinding, type Finding, type InspectionFacts } from "../../src/core/reconciliation.ts";
import {
  absent,
  accepted,
  type FenceReport,
  failed,
  fenced,
  notSent,
  type ReconcileReport,
  unknown,
} from "../../src/core/report.ts";
import { CONTRACT, rulesOf, settledBy } from "./rules.ts";

type Report = ReconcileReport<unknown> | FenceReport<unknown>;
const HOUR_MS = 3_600_000;

const LOOKUP: InspectionFacts = {
  kind: "lookup",
  reserved: { usd_cents: 100n },
  fenceAllowed: false,
  dispatchEnded: true,
  sinceAdmissionMs: HOUR_MS,
};
const fenceOf = (claim: FenceClaim["retentionMs"]) =>
  rulesOf({ ...CONTRACT, absence: { fence: { retentionMs: claim } } });

function find(report: unknown, facts: Partial<InspectionFacts> = {}, rules = fenceOf("kept")): Finding {
  return decideFinding(report as Report, rules, { ...LOOKUP, ...facts });
}
/** An outcome by its name, anything else by what was decided. */
const wordOf = (finding: Finding) => (finding.decision === "outcome" ? finding.outcome : finding.decision);

/** Protocol, section 7: the report, and what a lookup, a lookup that may go on to a fence, and a fence record. */
const TABLE: readonly (readonly [what: string, report: unknown, lookup: string, beforeFence: string, fence: string])[] =
  [
    ["proof found", accepted({ charge: "ch_1" }), "accepted", "accepted", "accepted"],
    ["a proof that cannot be stored", accepted({ p: "\0" }), "nothing", "nothing", "nothing"],
    ["the recipient's word that it failed, listed", failed({ code: "declined" }), "failed", "failed", "failed"],
    ["a failure that is not listed", failed({ code: "odd" }), "nothing", "nothing", "nothing"],
    ["fenced, and the mark is kept", fenced({ mark: 1 }), "no_effect", "no_effect", "no_effect"],
    ["absent, which is not conclusive", absent({ found: 0 }), "uncertain", "fence", "uncertain"],
    ["it cannot tell", unknown("the log was rotated"), "uncertain", "uncertain", "nothing"],
    ["not sent, which no lookup can know", notSent({}), "unreadable", "unreadable", "unreadable"],
    ["a report of another version", { report: "reached", evidence: {} }, "unreadable", "unreadable", "unreadable"],
    ["an empty object", {}, "unreadable", "unreadable", "unreadable"],
    ["a word", "accepted", "unreadable", "unreadable", "unreadable"],
  ];

describe("what a report records", () => {
  for (const [what, report, lookup, beforeFence, fence] of TABLE) {
    test(`${what}: ${lookup}; ${beforeFence} where a fence may follow; ${fence} from a fence`, () => {
      assert.equal(wordOf(find(report)), lookup);
      assert.equal(wordOf(find(report, { fenceAllowed: true })), beforeFence);
      assert.equal(wordOf(find(report, { kind: "fence", fenceAllowed: true })), fence);
    });
  }

  test("no report at all is the caller's fault to catch, and never a finding", () => {
    for (const report of [undefined, null]) assert.throws(() => find(report));
  });
});

describe("a fence", () => {
  const wordsOf = (claim: FenceClaim["retentionMs"], facts: Partial<InspectionFacts>) =>
    (["lookup", "fence"] as const).map((kind) => wordOf(find(fenced({}), { ...facts, kind }, fenceOf(claim))));

  test("whose mark is kept proves, whenever it is met and whether or not the dispatch is known to have ended", () => {
    assert.deepEqual(wordsOf("kept", { dispatchEnded: false, sinceAdmissionMs: 1e12 }), ["no_effect", "no_effect"]);
  });

  test("with a finite retention proves within it, counted from the admission, and nothing from its end on", () => {
    assert.deepEqual(wordsOf(HOUR_MS + 1, {}), ["no_effect", "no_effect"]);
    assert.deepEqual(wordsOf(HOUR_MS, {}), ["nothing", "nothing"]);
  });

  test("with a finite retention proves nothing while the dispatch may not have ended", () => {
    assert.deepEqual(wordsOf(2 * HOUR_MS, { dispatchEnded: false }), ["nothing", "nothing"]);
  });

  test("of an operation that declares none proves nothing", () => {
    assert.equal(wordOf(find(fenced({}), {}, rulesOf())), "nothing");
  });
});

describe("what is kept with it", () => {
  const keptOf = (finding: Finding) =>
    "evidence" in finding && finding.evidence && (JSON.parse(finding.evidence.bytes.toString("utf8")) as unknown);

  test("the lookup's evidence, where a doubt is recorded or a fence follows", () => {
    for (const fenceAllowed of [false, true]) {
      assert.deepEqual(keptOf(find(absent({ found: 0 }), { fenceAllowed })), { found: 0 });
    }
  });

  test("the reason of an adapter that cannot tell, clean", () => {
    const finding = find(unknown("rotated\0"));
    assert.deepEqual(keptOf(finding), { unknown: "rotated\ufffd" });
    assert.equal(finding.decision === "uncertain" && finding.reason, "rotated\ufffd");
  });

  test("the mark that proves nothing by now", () => {
    assert.deepEqual(keptOf(find(fenced({ mark: 1 }), {}, fenceOf(1))), { mark: 1 });
  });
});

test("an outcome found by reconciliation settles like one of the dispatch", () => {
  const settled = (finding: Finding) => finding.decision === "outcome" && settledBy(finding.settlements);
  assert.deepEqual(settled(find(accepted({}, { cost: { usd_cents: 130n } }))), { usd_cents: "100 + 30 (measured)" });
  assert.deepEqual(settled(find(failed({ code: "half_done" }))), { usd_cents: "100 + 0 (maximum)" });
  assert.deepEqual(settled(find(failed({ code: "declined" }))), { usd_cents: "0 + 0 (none)" });
  assert.deepEqual(settled(find(fenced({}))), { usd_cents: "0 + 0 (none)" });
});
