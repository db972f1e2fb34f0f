/** `apply`: authority from a reviewed file, planned, applied, applied again, refused as a whole. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import pg from "pg";
import { foundLedger, migrateSchema } from "../../src/store/migrate.ts";
import { createTestDatabase } from "../harness/database.ts";
import { violations } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { cli, cliJson, failing, ROOT } from "./run.ts";

const { connectionString: database, drop } = await createTestDatabase(null);
const pool = new pg.Pool({ connectionString: database, max: 3 });
const folder = await mkdtemp(join(tmpdir(), "pg-effects-apply-"));
const printed = await readFile(join(ROOT, "docs/authority.md"), "utf8");
const [, example = ""] = /^```json\n(.*?)^```$/ms.exec(printed) ?? [];

interface Example {
  readonly operations: readonly { readonly versions: readonly { readonly allowed_implementation: string }[] }[];
  readonly policies: readonly object[];
  readonly tasks: readonly object[];
}
interface Applied {
  readonly plan: boolean;
  readonly changes: readonly { readonly at: string; readonly kind: string; readonly object: string }[];
}

before(async () => {
  await migrateSchema(database);
  await foundLedger(database, "shop");
  const { operations } = JSON.parse(example) as Example;
  await register(operations[0]?.versions[0]?.allowed_implementation ?? "");
});
after(async () => {
  assert.deepEqual(await violations(pool), []);
  await pool.end();
  await drop();
  await rm(folder, { recursive: true });
});

/** As a worker registers what it runs. */
async function register(implementation: string): Promise<void> {
  await pool.query(
    `select effects_ledger.register_operations(jsonb_build_array(jsonb_build_object('operation', 'charge_card', 'version', 1,
       'contract', '{"expiresAfterMs": 60000}'::jsonb, 'contract_digest', repeat('ab', 32), 'input_schema', '{}'::jsonb,
       'implementation', $1::text, 'release', 'test')))`,
    [implementation],
  );
}

async function value<Value>(text: string): Promise<Value> {
  const { rows } = await pool.query({ text, rowMode: "array" });
  return (rows as unknown[][])[0]?.[0] as Value;
}
const authority = () => value<string>("select count(*) from audit.authority");

async function written(name: string, text: string | object): Promise<string> {
  const path = join(folder, name);
  await writeFile(
    path,
    typeof text === "string" ? text : JSON.stringify({ format: "pg-effects/authority/1", ...text }),
  );
  return path;
}
const apply = (file: string, ...options: readonly string[]) =>
  cliJson<Applied>(["apply", file, ...options], { database });
const refused = (file: string, ...options: readonly string[]) => failing(["apply", file, ...options], { database });

test("the example of docs/authority.md is planned, applied as printed, and plans nothing then", async () => {
  const file = await written("authority.json", example);
  const before = await authority();
  const plan = await cli(["apply", file, "--plan"], { database });
  assert.equal(plan.exit, 0);
  assert.match(plan.stdout, /^added +actor agent_7\n/);
  assert.match(plan.stdout, /\nadded +task orders +subject team:shop, actor any, 5000000 usd_cents\n/);
  assert.match(
    plan.stdout,
    /\nchanged +operation charge_card +from unprotected to protected, for good\n8 changes planned; nothing is changed\n$/,
  );
  assert.equal(await authority(), before);
  assert.equal(await value("select count(*) from audit.policies where operation is not null"), "0");

  const { exit, document } = await apply(file);
  assert.equal(exit, 0);
  assert.equal(document.changes.length, 8);
  assert.deepEqual(
    await value(
      "select array_agg(name || ' ' || approvals_needed order by name) from audit.policies where operation is not null",
    ),
    ["exceptions 1", "orders 0"],
  );
  assert.equal(await value("select protected and allowed_implementation = implementation from audit.operations"), true);
  assert.equal(
    await value("select string_agg(distinct reason, '') from audit.authority"),
    "charges of the shop, as agreed with ana",
  );

  const again = await cli(["apply", file], { database });
  assert.equal(again.stdout, "everything stands as the file says: nothing to change\n");
  const planned = await apply(file, "--plan");
  assert.deepEqual(planned.document, { plan: true, changes: [] });
});

test("what the file does not mention is left alone; what it revokes is revoked, and replaced in one transaction", async () => {
  const file = await written("second.json", {
    reason: "in the file",
    tasks: [{ name: "orders", budgets: { usd_cents: "1000" } }],
    policies: [
      { name: "orders", revoked: true },
      { name: "orders, lower", operation: "charge_card", version: 1, task: "orders", costs: { usd_cents: "4000" } },
    ],
    approvers: [{ approver: "ana", revoked: true }],
  });
  const { document } = await apply(file, "--reason", "INC-91");
  assert.deepEqual(
    document.changes.map(({ kind, object }) => `${kind} ${object}`.replace(/ key .*/, "")),
    [
      "revoked policy orders",
      "revoked approver ana",
      "changed budget usd_cents of task orders",
      "added policy orders, lower",
    ],
  );
  assert.equal(await value("select reason from audit.authority order by seq desc limit 1"), "INC-91");
  assert.equal(await value("select limit_amount from audit.budgets where task_path = 'orders'"), "1000");
  assert.equal(
    await value("select count(*) from audit.policies where name = 'exceptions' and revoked_at is null"),
    "1",
  );
  assert.deepEqual((await apply(file, "--plan")).document.changes, []);
});

test("an entry that cannot be brought about refuses the whole file, with its path", async () => {
  const before = await authority();
  const known = { operation: "charge_card", version: 1 };
  const cases: readonly (readonly [at: RegExp, file: object, exit: number, code: string])[] = [
    [
      /^policies\[0\]\.task: the policy exceptions has another task, costs, open_max, /,
      { policies: [{ ...known, name: "exceptions", open_max: "5" }] },
      4,
      "authority_refused",
    ],
    [
      /^policies\[0\]: the policy orders is revoked/,
      { policies: [{ ...known, name: "orders" }] },
      4,
      "authority_refused",
    ],
    [/^ledger\.name: this is the ledger shop/, { ledger: { name: "bank" } }, 4, "authority_refused"],
    [/^tasks\[0\]: /, { tasks: [{ name: "ordres", revoked: true }] }, 4, "authority_refused"],
    // What only the ledger's own function knows.
    [
      /^policies\[1\]: /,
      {
        policies: [
          { ...known, name: "new" },
          { ...known, name: "late", expires_at: "2001-01-01T00:00:00Z" },
        ],
      },
      2,
      "22023",
    ],
    [
      /^actors\[0\]\.spoken_by: there is no role/,
      { actors: [{ actor: "b", spoken_by: ["no_such_login"] }] },
      2,
      "22023",
    ],
    [
      /^tasks\[0\]\.budgets\.usd_cents: /,
      { tasks: [{ name: "t", budgets: { usd_cents: 5 } }] },
      2,
      "authority_file_invalid",
    ],
  ];
  for (const [at, file, exit, code] of cases) {
    const path = await written("refused.json", { tasks: [{ name: "never opened" }], ...file, reason: "x" });
    for (const options of [[], ["--plan"]]) {
      const refusal = await refused(path, ...options);
      assert.deepEqual([refusal.exit, refusal.code], [exit, code], refusal.message);
      assert.match(refusal.message, at);
    }
  }
  assert.equal(await authority(), before);
  assert.equal(await value("select count(*) from audit.tasks where name = 'never opened'"), "0");
});

test("a reason is wanted, from the file or the command; a file that cannot be read is said so", async () => {
  const [none, missing, words] = await Promise.all([
    refused(await written("none.json", {})),
    refused(join(folder, "missing.json")),
    refused(await written("words.json", "no json")),
  ]);
  assert.deepEqual([none.exit, none.code], [2, "usage_invalid"]);
  assert.deepEqual([missing.exit, missing.code], [2, "input_unreadable"]);
  assert.deepEqual([words.exit, words.code], [2, "json_invalid"]);
});

test("what somebody else changes meanwhile is not overwritten unseen", async () => {
  const other = await pool.connect();
  try {
    await other.query("begin");
    // Before the file's own change of this budget, which then waits for us; we raise another limit of the file.
    await other.query("select effects.set_budget('exceptions', 'usd_cents', '7', 'by hand')");
    const file = await written("race.json", {
      reason: "x",
      tasks: [
        { name: "exceptions", budgets: { usd_cents: "100000" } },
        { name: "orders", budgets: { usd_cents: "2000" } },
      ],
    });
    // The file finds 100000 there and plans no change of it.
    const applying = refused(file);
    await waitFor("it waits for the other change", async () => {
      const { rowCount } = await pool.query(
        "select from pg_stat_activity where application_name = 'pg-effects apply' and wait_event_type = 'Lock'",
      );
      return rowCount === 1;
    });
    await other.query("commit");
    const { exit, code, message } = await applying;
    assert.deepEqual([exit, code], [4, "authority_changed"]);
    assert.match(message, /^tasks\[0\]\.budgets\.usd_cents is not as the file says/);
    assert.equal(await value("select limit_amount from audit.budgets where task_path = 'orders'"), "1000");
  } finally {
    other.release();
  }
});
