/** tasks/postgres_insert.ts against a real Postgres that is the recipient. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import pg from "pg";
import { type FaultProxy, startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import postgresInsert, { MARK_TABLE_SQL } from "../../tasks/postgres_insert.ts";
import { createTestDatabase, type TestDatabase } from "../harness/database.ts";
import { waitFor } from "../harness/wait.ts";
import { ABORT_MS_MAX, describeConformance } from "./conformance.ts";
import { type AnyEffect, bind, dispatch, fence, outcomeOf, prepare, reconcile, type Secrets } from "./context.ts";

const TABLE = "public.receipt";

let database: TestDatabase;
let admin: pg.Client;
let proxy: FaultProxy;
before(async () => {
  database = await createTestDatabase(null);
  admin = new pg.Client({ connectionString: database.connectionString });
  await admin.connect();
  await admin.query(MARK_TABLE_SQL);
  await admin.query(`create table ${TABLE} (
    id text primary key, cents int constraint cents_positive check (cents > 0), paid boolean, note text)`);
  const { hostname, port } = new URL(database.connectionString);
  proxy = await startFaultProxy({ target: { host: hostname, port: Number(port) } });
});
after(async () => {
  await proxy.stop();
  await admin.end();
  await database.drop();
});

describeConformance("postgres_insert", {
  operation: postgresInsert,
  secrets: direct,
  looksUp: true,
  input: async () => request(),
  changes,
  atSilence: (effect, port) => {
    const moved = new URL(database.connectionString);
    moved.port = String(port);
    const account = `${moved.username}@127.0.0.1:${port}${moved.pathname}`;
    moved.hostname = "127.0.0.1";
    return { effect: { ...effect, account }, secrets: { POSTGRES_INSERT_URL: moved.href } };
  },
});

describe("what a row on its way can become", () => {
  test("an answer to COMMIT that is cut leaves it open, and the mark tells", async () => {
    const effect = await bound();
    const cut = proxy.cutReply({ to: contains(/\bcommit\0/) });
    assert.equal(await outcomeOf(dispatch(postgresInsert, effect.proxied, throughProxy())), "thrown");
    await cut.reached;
    const found = await reconcile(postgresInsert, effect.direct, { secrets: direct() });
    assert.equal(found.report, "accepted");
    assert.equal(await changes(effect.direct), 1);
  });

  test("a COMMIT that never arrives leaves it open, and a fence settles it", async () => {
    const effect = await bound();
    const cut = proxy.cutBeforeRequest({ match: contains(/\bcommit\0/) });
    assert.equal(await outcomeOf(dispatch(postgresInsert, effect.proxied, throughProxy())), "thrown");
    await cut.reached;
    assert.equal((await fence(postgresInsert, effect.direct, { secrets: direct() })).report, "fenced");
    assert.equal(await changes(effect.direct), 0);
  });

  test("a fence waits for a row in flight, and finds it where a lookup does not", async () => {
    const effect = await bound();
    const commit = proxy.holdRequest({ match: contains(/\bcommit\0/) });
    const sent = dispatch(postgresInsert, effect.proxied, throughProxy());
    await commit.reached;
    assert.equal((await reconcile(postgresInsert, effect.direct, { secrets: direct() })).report, "absent");
    const fenced = fence(postgresInsert, effect.direct, { secrets: direct() });
    await untilBlocked();
    commit.release();
    const [sentReport, fenceReport] = await Promise.all([sent, fenced]);
    assert.ok(sentReport.report === "accepted" && fenceReport.report === "accepted");
    assert.deepEqual(fenceReport.proof, sentReport.proof);
  });

  test("an abort while the row waits for a lock ends at once, and the row never comes", async (context) => {
    const effect = await bound();
    const rival = new pg.Client({ connectionString: database.connectionString });
    await rival.connect();
    context.after(() => rival.end());
    await rival.query("begin");
    await rival.query("insert into public.receipt (id) values ($1)", [effect.direct.payload.row.id]);
    const abort = new AbortController();
    const outcome = outcomeOf(dispatch(postgresInsert, effect.direct, { secrets: direct(), signal: abort.signal }));
    await untilBlocked();
    const from = performance.now();
    abort.abort();
    assert.equal(await outcome, "thrown");
    assert.ok(performance.now() - from < ABORT_MS_MAX, "the adapter outlived its signal");
    await rival.query("rollback");
    assert.equal((await fence(postgresInsert, effect.direct, { secrets: direct() })).report, "fenced");
    assert.equal(await changes(effect.direct), 0);
  });

  test("a second arrival under the same key inserts nothing and claims nothing", async () => {
    const { direct: effect } = await bound();
    assert.equal((await dispatch(postgresInsert, effect, { secrets: direct() })).report, "accepted");
    await admin.query("delete from public.receipt where id = $1", [effect.payload.row.id]);
    assert.equal((await dispatch(postgresInsert, effect, { secrets: direct() })).report, "unknown");
    assert.equal(await changes(effect), 0);
  });

  test("a mark for another row than the bound one concludes nothing", async () => {
    const { direct: effect } = await bound();
    await dispatch(postgresInsert, effect, { secrets: direct() });
    const other = { ...effect, payload: { ...effect.payload, row: { ...effect.payload.row, cents: 9 } } };
    assert.equal((await reconcile(postgresInsert, other, { secrets: direct() })).report, "unknown");
    assert.equal((await fence(postgresInsert, other, { secrets: direct() })).report, "unknown");
  });
});

describe("a refusal by the database", () => {
  const refused: [string, string, object, object][] = [
    ["of a constraint", "refused_by_constraint", { cents: -1 }, { sqlstate: "23514", constraint: "cents_positive" }],
    ["of a value", "refused_by_database", { cents: "many" }, { sqlstate: "22P02" }],
  ];
  for (const [of, code, row, told] of refused) {
    test(`${of} is a refusal without effect, and leaves no mark`, async () => {
      const { direct: effect } = await bound(row);
      const report = await dispatch(postgresInsert, effect, { secrets: direct() });
      assert.ok(report.report === "failed", JSON.stringify(report));
      assert.partialDeepStrictEqual(report.evidence, { code, ...told });
      assert.ok(!JSON.stringify(report).includes(effect.payload.row.id), "the evidence holds no value of the row");
      assert.equal((await reconcile(postgresInsert, effect, { secrets: direct() })).report, "absent");
    });
  }

  test("of a deferred constraint, at COMMIT, is one too", async () => {
    await admin.query("create table public.late (id text unique deferrable initially deferred)");
    await admin.query("insert into public.late values ('taken')");
    const input = { table: "public.late", row: { id: "taken" } };
    const effect = await bind(postgresInsert, input, { secrets: direct() });
    const report = await dispatch(postgresInsert, effect, { secrets: direct() });
    assert.equal(report.report === "failed" && report.code, "refused_by_constraint", JSON.stringify(report));
    assert.equal((await reconcile(postgresInsert, effect, { secrets: direct() })).report, "absent");
  });

  test("of the login was sent nothing", async () => {
    const { direct: effect } = await bound();
    const url = new URL(database.connectionString);
    url.password = "wrong";
    const report = await dispatch(postgresInsert, effect, { secrets: { POSTGRES_INSERT_URL: url.href } });
    assert.deepEqual(report.report === "notSent" && report.evidence, {
      reason: "no session at the other database",
      code: "28P01",
    });
  });

  test("of the connection was sent nothing", async () => {
    const { direct: effect } = await bound();
    const url = new URL(database.connectionString);
    url.port = "1";
    const moved = { ...effect, account: `${url.username}@${url.hostname}:1${url.pathname}` };
    const report = await dispatch(postgresInsert, moved, { secrets: { POSTGRES_INSERT_URL: url.href } });
    assert.partialDeepStrictEqual(report, { report: "notSent", evidence: { code: "ECONNREFUSED" } });
  });
});

describe("preparation", () => {
  test("binds the account without its password, and a secret for another account sends nothing", async () => {
    const { direct: effect } = await bound();
    const { password, username } = new URL(database.connectionString);
    assert.match(effect.account ?? "", new RegExp(`^${username}@`));
    assert.ok(password !== "" && !JSON.stringify(effect).includes(password));
    const report = await dispatch(postgresInsert, effect, throughProxy());
    assert.partialDeepStrictEqual(report, { report: "notSent", evidence: { code: "account_differs" } });
    await assert.rejects(reconcile(postgresInsert, effect, throughProxy()), { code: "account_differs" });
  });

  test("declines a column that is not there, and a database without the marks", async () => {
    const wrong = await prepare(postgresInsert, request({ colour: "red" }), { secrets: direct() });
    assert.deepEqual(wrong, { invalid: "public.receipt has no column colour" });
    const bare = await createTestDatabase(null);
    const declined = await prepare(postgresInsert, request(), {
      secrets: { POSTGRES_INSERT_URL: bare.connectionString },
    });
    assert.ok("invalid" in declined && declined.invalid.includes("MARK_TABLE_SQL"));
    await bare.drop();
  });

  test("a table or column that is no plain identifier is no input", () => {
    const { input } = postgresInsert.definition;
    for (const table of ["receipt", 'public."x"', "public.a b", "a.b.c", "public.x;drop"]) {
      assert.equal(input.safeParse({ ...request(), table }).success, false, table);
    }
    assert.equal(input.safeParse(request({ 'id") values (1); --': 1 })).success, false);
    assert.equal(input.safeParse({ table: TABLE, row: {} }).success, false);
  });
});

function request(row: object = {}) {
  return { table: TABLE, row: { id: randomBytes(8).toString("hex"), cents: 4000, paid: true, note: null, ...row } };
}

/** One effect under two accounts: straight to the database, and through the proxy. */
async function bound(row: object = {}): Promise<{ direct: AnyEffect; proxied: AnyEffect }> {
  const effect = await bind(postgresInsert, request(row), { secrets: direct() });
  const proxied = await bind(postgresInsert, effect.payload, { ...throughProxy(), key: effect.key });
  return { direct: effect, proxied };
}

function direct(): Secrets {
  return { POSTGRES_INSERT_URL: database.connectionString };
}

function throughProxy(): { secrets: Secrets } {
  const url = new URL(database.connectionString);
  url.hostname = proxy.host;
  url.port = String(proxy.port);
  return { secrets: { POSTGRES_INSERT_URL: url.href } };
}

async function changes({ payload }: AnyEffect): Promise<number> {
  const { rowCount } = await admin.query("select from public.receipt where id = $1", [payload.row.id]);
  return rowCount ?? 0;
}

/** Until the database says that a session of the adapter waits for a lock. */
async function untilBlocked(): Promise<void> {
  const sql = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
    and application_name = 'pg-effects postgres_insert'`;
  await waitFor("a session waits for a lock", async () => (await admin.query(sql)).rowCount);
}
