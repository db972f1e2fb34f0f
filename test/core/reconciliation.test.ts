import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { FenceClaim } from "../../src/core/contract.ts";
import { decideFinding, type Finding, type InspectionFacts } from "../../src/core/reconciliation.ts";
import {
  absent,
  accepted,
  ambiguous,
  type FenceReport,
  failed,
  fenced,
  notSent,
  type ReconcileReport,
  reached,
  unknown,
} from "../../src/core/report.ts";
import { CONTRACT, rulesOf, settledBy } from "./rules.ts";

type Report = ReconcileReport<unknown> | FenceReport<unknown>;
const HOUR_MS = 3_600_000;

const LOOKUP: InspectionFacts = {
  kind: "lookup",
  reserved: { usd_cents: 100n },
  next: null,
  uncertain: false,
  admittedAtMs: 0,
  dispatchDeadlineMs: 30_000,
  dispatchEndedAtMs: 20_000,
  begunAtMs: HOUR_MS,
};
const fenceOf = (claim: FenceClaim["retentionMs"]) =>
  rulesOf({ ...CONTRACT, absence: { fence: { retentionMs: claim } } });

function find(report: unknown, facts: Partial<InspectionFacts> = {}, rules = fenceOf("kept")): Finding {
  return decideFinding(report as Report, rules, { ...LOOKUP, ...facts });
}
/** An outcome by its name, anything else by what was decided. */
const wordOf = (finding: Finding) => {
  if (finding.decision === "outcome") return finding.outcome;
  if (finding.decision === "goes_on") return finding.to;
  return finding.decision === "uncertain" ? (finding.resolution ?? "uncertain") : finding.decision;
};

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
    ["the wanted state is there, by unknown hand", reached({ gone: true }), "reached", "reached", "reached"],
    ["two matches", ambiguous({ matches: 2 }), "uncertain", "uncertain", "uncertain"],
    ["a report of another version", { report: "vanished", evidence: {} }, "unreadable", "unreadable", "unreadable"],
    ["an empty object", {}, "unreadable", "unreadable", "unreadable"],
    ["a word", "accepted", "unreadable", "unreadable", "unreadable"],
  ];

describe("what a report records", () => {
  for (const [what, report, lookup, beforeFence, fence] of TABLE) {
    test(`${what}: ${lookup}; ${beforeFence} where a fence may follow; ${fence} from a fence`, () => {
      assert.equal(wordOf(find(report)), lookup);
      assert.equal(wordOf(find(report, { next: "fence" })), beforeFence);
      assert.equal(wordOf(find(report, { kind: "fence" })), fence);
    });
  }

  test("no report at all is the caller's fault to catch, and never a finding", () => {
    for (const report of [undefined, null]) assert.throws(() => find(report));
  });
});

describe("absence", () => {
  const claimed = (endedBy: "dispatch" | "recipient") =>
    rulesOf({ ...CONTRACT, absence: { conclusiveAfterMs: 1_000, endedBy } });
  const look = (endedBy: "dispatch" | "recipient", facts: Partial<InspectionFacts>) =>
    find(absent({ found: 0 }), facts, claimed(endedBy));

  test("is conclusive for a lookup that began after the moment, counted from the dispatch's end", () => {
    assert.equal(wordOf(look("dispatch", { begunAtMs: 21_001 })), "no_effect");
    assert.equal(wordOf(look("dispatch", { begunAtMs: 21_001, next: "fence" })), "no_effect");
  });

  test("is nothing yet for one that began before it, and the inspection names the moment", () => {
    const finding = look("dispatch", { begunAtMs: 21_000 });
    assert.ok(finding.decision === "nothing");
    assert.equal(finding.conclusiveAtMs, 21_000);
  });

  test("is never conclusive while the end of the dispatch is not on record, however late it is", () => {
    const finding = look("dispatch", { dispatchEndedAtMs: null, begunAtMs: 1e12 });
    assert.ok(finding.decision === "nothing");
    assert.equal(finding.conclusiveAtMs, null);
    assert.equal(wordOf(look("dispatch", { dispatchEndedAtMs: null, begunAtMs: 1e12, next: "fence" })), "fence");
  });

  test("counts from the dispatch's deadline where the recipient enforces it, whether or not the dispatch has ended", () => {
    assert.equal(wordOf(look("recipient", { dispatchEndedAtMs: null, begunAtMs: 31_001 })), "no_effect");
    assert.equal(wordOf(look("recipient", { dispatchEndedAtMs: null, begunAtMs: 31_000 })), "nothing");
  });

  test("goes on to what the request allows, where it is not conclusive", () => {
    assert.equal(wordOf(look("recipient", { begunAtMs: 31_000, next: "resubmit" })), "resubmit");
    assert.equal(wordOf(find(absent({}), { next: "resubmit" })), "resubmit");
  });
});

describe("what is uncertain already", () => {
  test("is not recorded again, and something new resolves it", () => {
    const again = (report: unknown) => wordOf(find(report, { uncertain: true }));
    assert.equal(again(absent({})), "nothing");
    assert.equal(again(unknown("still")), "nothing");
    assert.equal(again(ambiguous({})), "nothing");
    assert.equal(again(reached({})), "reached");
    assert.equal(again(accepted({ charge: "ch_1" })), "accepted");
  });
});

describe("a resubmission", () => {
  test("reports like a dispatch, and one that cannot tell changes nothing", () => {
    const resubmitted = (report: unknown) => wordOf(find(report, { kind: "resubmit" }));
    assert.equal(resubmitted(accepted({ charge: "ch_1" })), "accepted");
    assert.equal(resubmitted(failed({ code: "declined" })), "failed");
    assert.equal(resubmitted(unknown("timeout")), "nothing");
  });
});

test("what was reached spends the maximum", () => {
  const finding = find(reached({ gone: true }));
  assert.ok(finding.decision === "uncertain");
  assert.deepEqual(settledBy(finding.settlements), { usd_cents: "100 + 0 (maximum)" });
});

describe("a fence", () => {
  const wordsOf = (claim: FenceClaim["retentionMs"], facts: Partial<InspectionFacts>) =>
    (["lookup", "fence"] as const).map((kind) => wordOf(find(fenced({}), { ...facts, kind }, fenceOf(claim))));

  test("whose mark is kept proves, whenever it is met and whether or not the dispatch is known to have ended", () => {
    assert.deepEqual(wordsOf("kept", { dispatchEndedAtMs: null, begunAtMs: 1e12 }), ["no_effect", "no_effect"]);
  });

  test("with a finite retention proves within it, counted from the admission, and nothing from its end on", () => {
    assert.deepEqual(wordsOf(HOUR_MS + 1, {}), ["no_effect", "no_effect"]);
    assert.deepEqual(wordsOf(HOUR_MS, {}), ["nothing", "nothing"]);
  });

  test("with a finite retention proves nothing while the dispatch may not have ended", () => {
    assert.deepEqual(wordsOf(2 * HOUR_MS, { dispatchEndedAtMs: null }), ["nothing", "nothing"]);
  });

  test("of an operation that declares none proves nothing", () => {
    assert.equal(wordOf(find(fenced({}), {}, rulesOf())), "nothing");
  });
});

describe("what is kept with it", () => {
  const keptOf = (finding: Finding) =>
    "evidence" in finding && finding.evidence && (JSON.parse(finding.evidence.bytes.toString("utf8")) as unknown);

  test("the lookup's evidence, where a doubt is recorded or a fence follows", () => {
    for (const next of [null, "fence", "resubmit"] as const) {
      assert.deepEqual(keptOf(find(absent({ found: 0 }), { next })), { found: 0 });
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
