/**
 * What is no amount is refused by every function that takes one, and moves no sum: those that people call, and those that a
 * worker calls (protocol, sections 1 and 5; case 16). Tasks' own limits: test/request/tasks.test.ts.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { evidenceDigest } from "../../src/core/digest.ts";
import { attempt, type Refusal } from "../harness/attempt.ts";
import { GALLERY_TASK, openGallery } from "../harness/gallery.ts";
import { openTestLedger } from "../harness/ledger.ts";

const TOO_LARGE = "9223372036854775808";
/** As JSON. NaN and Infinity are no JSON, so they come as text. */
const NO_AMOUNTS: readonly unknown[] = [
  -1,
  0.5,
  "",
  "-1",
  "1e3",
  "1.0",
  "NaN",
  "Infinity",
  TOO_LARGE,
  true,
  null,
  {},
  [],
];
/** What people type must besides be written in one way: this is a number all the same, and not refused by a cast. */
const NO_LIMITS: readonly unknown[] = [...NO_AMOUNTS, 2 ** 53, " 1", "+1", "0x10"];

const subject = await openTestLedger();
const ids = await openGallery(subject);
const client = await subject.connect();
const before = await sums();

/** Everything that an amount could have moved. */
async function sums(): Promise<readonly object[]> {
  return subject.sql(
    `select task_id::text as of, unit, limit_amount, reserved, spent, overrun::text from effects_ledger.budget
     union all
     select effect_id::text, unit, reserved, settled, overrun, standing from effects_ledger.cost
     union all
     select effect_id::text, cost::text, 0, 0, 0, '' from effects_payload.binding order by 1, 2`,
  );
}

const tokenOf = (id: string) =>
  subject.value<string>("select encode(token_hash, 'hex') from effects_ledger.effect where effect_id = $1", [id]);

/** The binding of the effect that waits, as its next revision, with another cost. */
async function record(kind: "prepared" | "admitted", cost: unknown, charge: unknown): Promise<Refusal | null> {
  const [bound] = await subject.sql<Record<string, unknown>>(
    `select b.effect_id, b.revision + 1 as revision, b.binding_version, convert_from(b.bytes, 'UTF8') as bytes,
            encode(b.digest, 'hex') as digest, encode(b.salt, 'hex') as salt, convert_from(b.payload, 'UTF8') as payload,
            encode(b.payload_digest, 'hex') as payload_digest, b.implementation, b.release, b.policy_id, b.lane, b.rebound,
            (extract(epoch from b.expires_at) * 1000)::bigint::text as expires_at_ms,
            (extract(epoch from b.expires_at) * 1000)::bigint::text as permit_expires_at_ms,
            (select task_id from effects_ledger.task where name = $2) as task
       from effects_payload.binding b where b.effect_id = $1`,
    [ids.prepared, GALLERY_TASK],
  );
  const admission = {
    issued_under: "ordinary",
    attempt: "01a00000-0000-7000-8000-000000000000",
    token_hash: "00",
    charges: [{ task_id: bound?.task, unit: "usd_cents", amount: charge }],
    approvals: [],
    dispatch_timeout_ms: 1_000,
  };
  const item = { ...bound, ...admission, cost: { usd_cents: cost } };
  return attempt(client, `select effects_ledger.record_${kind}($1::jsonb, 'test')`, [JSON.stringify([item])]);
}

/** A report of the dispatch that is unresolved. */
async function report(settled: unknown, overrun: unknown): Promise<Refusal | null> {
  const evidence = Buffer.from("{}");
  const item = {
    effect_id: ids.admitted,
    token_hash: await tokenOf(ids.admitted),
    via: "dispatch",
    outcome: "accepted",
    standing: "settled",
    evidence: { bytes: evidence.toString("hex"), digest: evidenceDigest(evidence).toString("hex") },
    settlements: [{ unit: "usd_cents", settled, overrun, source: "measured" }],
  };
  return attempt(client, "select effects_ledger.record_outcomes($1::jsonb, 'test')", [JSON.stringify([item])]);
}

interface Place {
  readonly name: string;
  readonly refused: readonly unknown[];
  readonly give: (amount: unknown) => Promise<Refusal | null>;
}

const PLACES: readonly Place[] = [
  {
    name: "set_budget",
    refused: NO_LIMITS.filter((amount) => typeof amount === "string" || amount === null),
    give: (amount) =>
      attempt(client, "select effects.set_budget($1, 'usd_cents', $2, 'a test')", [GALLERY_TASK, amount]),
  },
  {
    name: "the cost that a policy covers",
    refused: NO_LIMITS,
    give: (amount) =>
      attempt(client, "select effects.add_policy('p', 'send_note', 1, 'a test', costs => $1::json)", [
        JSON.stringify([{ unit: "usd_cents", limit: amount }]),
      ]),
  },
  {
    name: "the cost of a resolution",
    refused: NO_LIMITS,
    give: (amount) =>
      attempt(client, `select effects.resolve($1, 'accepted', '{"seen": "it"}', 'a test', cost => $2::json)`, [
        ids.uncertain,
        JSON.stringify({ usd_cents: amount }),
      ]),
  },
  {
    name: "a binding's maximum cost",
    refused: NO_AMOUNTS.filter((amount) => amount !== TOO_LARGE), // an admission refuses that one
    give: (amount) => record("prepared", amount, "5"),
  },
  { name: "an admission's cost", refused: NO_AMOUNTS, give: (amount) => record("admitted", amount, "5") },
  { name: "an admission's charge", refused: NO_AMOUNTS, give: (amount) => record("admitted", "5", amount) },
  { name: "what an outcome settles", refused: NO_AMOUNTS, give: (amount) => report(amount, "0") },
  { name: "what an outcome overruns", refused: NO_AMOUNTS, give: (amount) => report("5", amount) },
];

for (const { name, refused, give } of PLACES) {
  test(`${name} takes an amount, and nothing that is none`, async () => {
    assert.equal(await give("5"), null, "the control");
    for (const amount of refused) {
      const refusal = await give(amount);
      assert.ok(refusal, `${JSON.stringify(amount)} was taken`);
      // Not an amount, out of range, below zero, missing.
      assert.match(refusal.code, /^(22023|22P02|22003|23514|23502)$/, `${JSON.stringify(amount)}: ${refusal.message}`);
    }
    assert.deepEqual(await sums(), before);
  });
}
