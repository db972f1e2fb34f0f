/** Fences at a real recipient: another Postgres database, behind a proxy (protocol, section 7; case 36). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import pg from "pg";
import { startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import type { ReconcileOptions } from "../../src/index.ts";
import postgresInsert, { MARK_TABLE_SQL } from "../../tasks/postgres_insert.ts";
import { createTestDatabase } from "../harness/database.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const recipient = await createTestDatabase(null);
subject.atEnd(recipient.drop);
const shop = new pg.Client({ connectionString: recipient.connectionString });
await shop.connect();
subject.atEnd(() => shop.end());
await shop.query(MARK_TABLE_SQL);
await shop.query("create table public.receipt (id text primary key)");
const url = new URL(recipient.connectionString);
const proxy = await startFaultProxy({ target: { host: url.hostname, port: Number(url.port) } });
subject.atEnd(() => proxy.stop());
url.hostname = proxy.host;
url.port = String(proxy.port);

before(() => subject.work({ operations: [postgresInsert], secrets: { POSTGRES_INSERT_URL: url.href } }));

const COMMIT = contains(/\bcommit\0/);
const request = (id: string) => ledger.enqueue(postgresInsert, { table: "public.receipt", row: { id } });

/** An effect whose request was lost on its way, so that nobody can tell. */
async function lost(id: string): Promise<string> {
  const cut = proxy.cutBeforeRequest({ match: contains('insert into "public"."receipt"') });
  const effect = await request(id);
  await cut.reached;
  const standing = await subject.ended(effect);
  assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
  return effect;
}

async function reconcile(options: Omit<ReconcileOptions, "deadlineMs">): Promise<void> {
  const reconciliation = await ledger.reconcile({ deadlineMs: 60_000, ...options });
  const ended = "select ended from audit.reconciliations where reconciliation_id = $1";
  assert.equal(await waitFor("the reconciliation ends", () => subject.value(ended, [reconciliation])), "finished");
}

/** The effect's inspections, what stands at the recipient under its key, and its rows there. */
async function traces(effect: string, id: string) {
  const inspections = await subject.sql<{ step: string }>(
    "select kind || ' ' || report as step from audit.inspections where effect_id = $1 order by begun_at",
    [effect],
  );
  const key = await subject.value("select key from audit.effects where effect_id = $1", [effect]);
  const marks = await shop.query("select kind from pg_effects_mark where key = $1", [key]);
  const rows = await shop.query("select from receipt where id = $1", [id]);
  return {
    steps: inspections.map(({ step }) => step).join(", "),
    marks: marks.rows.map(({ kind }) => kind).join(),
    rows: rows.rowCount,
  };
}
const state = async (effect: string) => (await ledger.observe(effect))?.state;

test("where nothing is found and a fence is allowed, a void mark ends the doubt: no_effect", async () => {
  const effect = await lost("fenced");
  await reconcile({ effect, allowFence: true });
  assert.equal(await state(effect), "no_effect");
  assert.deepEqual(await traces(effect, "fenced"), { steps: "lookup absent, fence fenced", marks: "void", rows: 0 });
});

test("without leave to fence the same lookup is uncertain, and writes nothing at the recipient", async () => {
  const effect = await lost("not fenced");
  await reconcile({ effect });
  assert.equal(await state(effect), "uncertain");
  assert.deepEqual(await traces(effect, "not fenced"), { steps: "lookup absent", marks: "", rows: 0 });
});

test("where the proof is found there is nothing to fence", async () => {
  const cut = proxy.cutReply({ to: COMMIT });
  const effect = await request("arrived");
  await cut.reached;
  assert.equal((await subject.ended(effect)).state, "admitted");
  await reconcile({ effect, allowFence: true });
  assert.equal(await state(effect), "accepted");
  assert.deepEqual(await traces(effect, "arrived"), { steps: "lookup accepted", marks: "effect", rows: 1 });
});

test("a void mark whose maker recorded nothing is met by an ordinary lookup as fenced: no_effect", async () => {
  const effect = await lost("forgotten");
  const cut = proxy.cutReply({ to: COMMIT });
  await reconcile({ effect, allowFence: true });
  await cut.reached;
  assert.equal(await state(effect), "admitted");
  const half = { marks: "void", rows: 0 };
  assert.deepEqual(await traces(effect, "forgotten"), { steps: "lookup absent, fence could_not_ask", ...half });
  await reconcile({ effect });
  assert.equal(await state(effect), "no_effect");
  const steps = "lookup absent, fence could_not_ask, lookup fenced";
  assert.deepEqual(await traces(effect, "forgotten"), { steps, ...half });
});

test("a fence over several effects wants their number confirmed, and then fences each", async () => {
  const effects = [await lost("one"), await lost("two")];
  const all = { operation: "postgres_insert", allowFence: true };
  await assert.rejects(ledger.reconcile({ ...all, deadlineMs: 60_000 }), { code: "PE111", hint: /confirm_count => 2/ });
  assert.deepEqual(await traces(effects[0] as string, "one"), { steps: "", marks: "", rows: 0 });
  await reconcile({ ...all, confirmCount: 2 });
  assert.deepEqual([await state(effects[0] as string), await state(effects[1] as string)], ["no_effect", "no_effect"]);
});
