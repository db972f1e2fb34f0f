import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { evidenceDigest } from "../../src/core/digest.ts";
import { decideOutcome, storeEvidence } from "../../src/core/outcome.ts";
import { accepted, type DispatchReport, failed, unknown } from "../../src/core/report.ts";
import { NO_SECRETS, Secrets } from "../../src/core/secret.ts";
import { CONTRACT, outcomeOf, rulesOf } from "./rules.ts";

const RESERVED = {};
const proof = { charge: "ch_1" };

describe("a proof", () => {
  const decide = (given: unknown, rules = rulesOf()) => decideOutcome(accepted(given), rules, RESERVED);
  const reasonOf = (given: unknown, rules = rulesOf()) => {
    const decision = decide(given, rules);
    return decision.decision === "unresolved" ? decision.reason : "";
  };
  /** A proof of emoji whose canonical form, `{"p":"…"}`, has exactly so many bytes. */
  const ofBytes = (bytes: number) => ({
    p: "\u{1f600}".repeat(Math.floor((bytes - 8) / 4)) + "x".repeat((bytes - 8) % 4),
  });

  test("its bytes count, not its characters: 65,536 are accepted, 65,537 are unusable", () => {
    const largest = ofBytes(65_536);
    assert.equal(largest.p.length, 32_764); // UTF-16 units; 16,382 emoji
    assert.equal(outcomeOf(decide(largest)).evidence.bytes.length, 65_536);
    assert.match(reasonOf(ofBytes(65_537)), /^proof_unusable: .*65537 bytes/);
  });

  test("the contract's own bound holds where it is smaller", () => {
    const rules = rulesOf({ proofBytesMax: 20 });
    assert.equal(outcomeOf(decide(ofBytes(20), rules)).outcome, "accepted");
    assert.match(reasonOf(ofBytes(21), rules), /21 bytes, the contract allows 20/);
  });

  const UNUSABLE: Readonly<Record<string, unknown>> = {
    "U+0000": { p: "a\0b" },
    "half a surrogate pair": { p: "\ud800" },
    "1e400": { p: JSON.parse("1e400") },
    "a date": { at: new Date(0) },
    "a bigint": { p: 1n },
    nothing: undefined,
    null: null,
    "a proxy that throws": new Proxy({}, { ownKeys: () => assert.fail("read") }),
  };
  for (const [what, given] of Object.entries(UNUSABLE)) {
    test(`${what} is unusable: unresolved, not lost and not accepted`, () =>
      assert.match(reasonOf(given), /^proof_unusable: /));
  }

  test("what the operation's schema refuses is unusable, and what it returns is what is kept", () => {
    const refusing = rulesOf(CONTRACT, {
      parseProof: () => {
        throw new Error("no charge");
      },
    });
    assert.equal(reasonOf(proof, refusing), "proof_unusable: Error: no charge");
    const stripping = rulesOf(CONTRACT, { parseProof: () => ({ charge: "ch_2" }) });
    assert.equal(outcomeOf(decide(proof, stripping)).evidence.bytes.toString("utf8"), '{"charge":"ch_2"}');
  });

  const REFERENCES: Readonly<Record<string, readonly [reference: () => unknown, kept: string | null]>> = {
    "is kept clean": [() => "ch\u00001", "ch\ufffd1"],
    "is kept bounded": [() => "x".repeat(9_999), `${"x".repeat(200)}… (9999 characters)`],
    "that is no text is none": [() => undefined, null],
    "that throws is none": [() => assert.fail("read"), null],
  };
  for (const [claim, [reference, kept]] of Object.entries(REFERENCES)) {
    test(`a reference ${claim}, and costs no acceptance`, () => {
      const rules = rulesOf(CONTRACT, { reference: reference as () => string });
      assert.equal(outcomeOf(decide(proof, rules)).reference, kept);
    });
  }
});

describe("evidence that is no proof", () => {
  test("what JSON cannot carry is kept as a description", () => {
    for (const evidence of [{ a: "\0" }, { a: Number.NaN }, new Error("odd"), () => 1, 1n]) {
      assert.match(storeEvidence(evidence, NO_SECRETS).bytes.toString("utf8"), /^\{"unreadable":/);
    }
  });

  test("nothing is kept as null", () =>
    assert.equal(storeEvidence(undefined, NO_SECRETS).bytes.toString("utf8"), "null"));

  test("it is bounded in bytes, whatever it is", () => {
    const long = fc.constantFrom("x", '"', "\\", "\u20ac", "\u{1f600}", "\u0001").map((unit) => unit.repeat(6_000));
    fc.assert(
      fc.property(fc.oneof(long, fc.array(fc.string(), { maxLength: 900 })), (evidence) => {
        assert.ok(storeEvidence(evidence, NO_SECRETS).bytes.length <= 4_096);
      }),
    );
  });
});

describe("secrets in an adapter's words", () => {
  const rules = rulesOf(CONTRACT, {
    secrets: new Secrets(["CARDS_KEY"], { CARDS_KEY: 'sk_"live"_1' }),
    reference: () => 'ref sk_"live"_1',
  });

  test("are struck out of proof and reference, and the digest is that of what is kept", () => {
    const decided = outcomeOf(decideOutcome(accepted({ said: 'key sk_"live"_1' }), rules, RESERVED));
    assert.equal(decided.evidence.bytes.toString("utf8"), '{"said":"key [CARDS_KEY]"}');
    assert.deepEqual(decided.evidence.digest, evidenceDigest(decided.evidence.bytes));
    assert.equal(decided.reference, "ref [CARDS_KEY]");
  });

  test("are struck out of refusals and of evidence that was shortened or cannot be kept", () => {
    for (const said of ['sk_"live"_1', 'sk_"live"_1 '.repeat(1_000), { at: new Date(0), said: 'sk_"live"_1' }]) {
      const { evidence } = outcomeOf(
        decideOutcome(failed({ code: "declined", said } as { code: string }), rules, RESERVED),
      );
      assert.doesNotMatch(evidence.bytes.toString("utf8"), /live/);
    }
  });

  test("are struck out of every reason for which nothing is concluded", () => {
    const refusing = { ...rules, parseProof: () => assert.fail('sk_"live"_1') };
    const said: readonly (readonly [unknown, typeof rules])[] = [
      [unknown('sk_"live"_1 refused'), rules],
      [failed({ code: 'sk_"live"_1' }), rules],
      [accepted({}), refusing],
      ['401 for sk_"live"_1', rules],
      [{ report: 'sk_"live"_1' }, rules],
    ];
    for (const [report, given] of said) {
      const decision = decideOutcome(report as DispatchReport<unknown>, given, RESERVED);
      assert.match(decision.decision === "unresolved" ? decision.reason : "", /\[CARDS_KEY\]/);
    }
  });

  test("that look like a number or like JSON lose no proof, and are not in it", () => {
    for (const value of ["1234", "true", '":"x']) {
      const pin = rulesOf(CONTRACT, { secrets: new Secrets(["PIN"], { PIN: value }) });
      const { evidence } = outcomeOf(
        decideOutcome(accepted({ id: 1234, pin: value, yes: true, a: "x" }), pin, RESERVED),
      );
      assert.equal(JSON.parse(evidence.bytes.toString("utf8")).pin, "[PIN]");
    }
  });
});
