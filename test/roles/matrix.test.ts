/**
 * Each verb of the schema effects under each role, and each table of ours, as the catalogue lists them: what a line of
 * role-matrix.ts does not allow is refused by the database. Nothing new can be forgotten here.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type pg from "pg";
import { AUDIT_READERS, FUNCTIONS, type Role, SCHEMAS, TABLES, VIEWS } from "../../src/store/role-matrix.ts";
import { attempt } from "../harness/attempt.ts";
import { GRANTEES, openRoleLedger } from "./with-roles.ts";

const subject = await openRoleLedger();
const sessions = new Map<Role, pg.Client>();
for (const role of GRANTEES) sessions.set(role, await (await subject.login(`login_${role}`, role)).connect());
const as = (role: Role) => sessions.get(role) as pg.Client;

interface Routine {
  readonly name: string;
  readonly schema: string;
  /** A call with a null of each argument's type. */
  readonly call: string;
  readonly definer: boolean;
  readonly settings: readonly string[] | null;
  readonly owner: string;
}
const routines = await subject.sql<Routine>(
  `select n.nspname || '.' || p.proname as name, n.nspname as schema, p.prosecdef as definer, p.proconfig as settings,
          pg_get_userbyid(p.proowner) as owner,
          format('%s.%I(%s)', n.nspname, p.proname, (select string_agg(format('null::%s', t::regtype), ', ' order by place)
            from unnest(p.proargtypes) with ordinality as a(t, place))) as call
     from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = any ($1) and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype order by 1`,
  [Object.keys(SCHEMAS)],
);
const relations = await subject.sql<{
  name: string;
  kind: string;
  schema: string;
  owner: string;
  column: string | null;
}>(
  `select n.nspname || '.' || c.relname as name, c.relkind as kind, n.nspname as schema, pg_get_userbyid(c.relowner) as owner,
          (select quote_ident(a.attname) from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and a.attidentity = ''
              and a.attgenerated = '' order by a.attnum limit 1) as column
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any ($1) and c.relkind in ('r', 'v', 'S') order by 1`,
  [Object.keys(SCHEMAS)],
);

test("every function and every view of the schema effects has its line, and every line names one that is there, once", () => {
  const there = routines.map(({ name }) => name);
  const effects = there.filter((name) => name.startsWith("effects."));
  assert.ok(effects.length >= 25);
  assert.deepEqual(
    effects.filter((name) => !(name in FUNCTIONS)),
    [],
    "give it a line in src/store/role-matrix.ts",
  );
  assert.deepEqual(
    Object.keys(FUNCTIONS).filter((name) => there.filter((each) => each === name).length !== 1),
    [],
  );
  const named = relations.map(({ name }) => name);
  assert.deepEqual(
    named.filter((name) => name.startsWith("effects.") && !(name in VIEWS)),
    [],
  );
  assert.deepEqual(
    [...Object.keys(VIEWS), ...Object.keys(TABLES)].filter((name) => !named.includes(name)),
    [],
  );
});

test("every object of the ledger belongs to the role that nobody logs in as", async () => {
  const owner = subject.role("schema");
  assert.deepEqual(
    [...routines, ...relations].filter((each) => each.owner !== owner).map(({ name }) => name),
    [],
  );
  const others = await subject.value(
    `select (select count(*) from pg_namespace where nspname = any ($1) and pg_get_userbyid(nspowner) <> $2)
          + (select count(*) from pg_type t join pg_namespace n on n.oid = t.typnamespace
              where n.nspname = any ($1) and pg_get_userbyid(typowner) <> $2)`,
    [Object.keys(SCHEMAS), owner],
  );
  assert.equal(others, "0");
  assert.equal(await subject.value("select rolcanlogin or rolsuper from pg_roles where rolname = $1", [owner]), false);
});

test("what raises privilege looks names up in pg_catalog first and in temporary tables last", () => {
  const loose = routines.filter(
    ({ definer, settings }) => definer && !settings?.includes("search_path=pg_catalog, pg_temp"),
  );
  assert.deepEqual(
    loose.map(({ name }) => name),
    [],
  );
});

test("what a role gets outside the schema effects raises privilege, or computes from its arguments alone", () => {
  const pure = /^effects_ledger\.(event_hash|chain_start|authority_hash|durability_gap)$/;
  const raw = routines.filter(({ name, definer }) => name in FUNCTIONS && !definer && !pure.test(name));
  assert.deepEqual(
    raw.map(({ name }) => name),
    [],
  );
});

test("what gives authority is the owner's, and whoever may only take it away never has the reverse", () => {
  const giving = Object.keys(FUNCTIONS).filter((name) => /^effects\.(add|allow|let|open_root|protect|set)_/.test(name));
  assert.ok(giving.length >= 9);
  for (const name of giving) assert.deepEqual(FUNCTIONS[name], ["owner"], name);
  const revoking = Object.keys(FUNCTIONS).filter((name) => /^effects\.(revoke_|pause$|resume$)/.test(name));
  for (const name of revoking) assert.ok(FUNCTIONS[name]?.includes("operator"), name);
  const to = (role: Role) =>
    Object.keys(FUNCTIONS).filter((name) => (FUNCTIONS[name] as readonly Role[]).includes(role));
  assert.deepEqual(
    to("auditor").filter((name) => name.startsWith("effects.")),
    [],
  );
  assert.deepEqual(
    to("worker").filter((name) => name.startsWith("effects.")),
    [],
  );
  const beyond =
    /^effects\.(add|allow|let|open_root|protect|set|withdraw|revoke|pause|resume|resolve|accept|refuse|submit_approval)/;
  assert.deepEqual(
    to("service").filter((name) => beyond.test(name)),
    [],
  );
});

test("the functions that a view computes with are its readers' to execute", async () => {
  const used = await subject.sql<{ view: string; name: string }>(
    `select distinct c.relnamespace::regnamespace || '.' || c.relname as view, p.pronamespace::regnamespace || '.' || p.proname as name
       from pg_depend d join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
       join pg_class c on c.oid = r.ev_class join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
      where c.relnamespace::regnamespace::text in ('audit', 'effects') and p.pronamespace::regnamespace::text ~ '^effects'`,
  );
  assert.ok(used.length >= 6);
  for (const { view, name } of used) {
    const readers: readonly Role[] = view.startsWith("audit.") ? AUDIT_READERS : (VIEWS[view] ?? []);
    const without = readers.filter((role) => !(FUNCTIONS[name] as readonly Role[] | undefined)?.includes(role));
    assert.deepEqual(without, [], `${view} calls ${name} with its reader's rights: give it a line in role-matrix.ts`);
  }
});

describe("a function", () => {
  for (const { name, call, schema } of routines) {
    if (schema === "effects_queue") continue; // graphile-worker's, and the worker's as a whole
    const allowed: readonly Role[] = schema === "audit" ? AUDIT_READERS : (FUNCTIONS[name] ?? []);
    test(`${name} is ${allowed.length === 0 ? "nobody's" : `for ${allowed.join(", ")}`}`, async () => {
      for (const role of GRANTEES) {
        const enters = (SCHEMAS[schema as keyof typeof SCHEMAS] as readonly Role[]).includes(role);
        const refused = denied(await attempt(as(role), `select * from ${call}`));
        assert.equal(refused, !(allowed.includes(role) && enters), `${role}: ${name}`);
      }
    });
  }
});

describe("a table or view", () => {
  for (const { name, kind, schema, column } of relations) {
    if (kind === "S") continue;
    test(`${name} is reached only as its line says`, async () => {
      for (const role of GRANTEES) {
        const line = TABLES[name]?.to === role ? (TABLES[name]?.privileges ?? []) : [];
        const reads =
          schema === "audit" ? (SCHEMAS.audit as readonly Role[]) : ((VIEWS[name] ?? []) as readonly Role[]);
        const granted = new Set([...line, ...(reads.includes(role) ? ["select"] : [])]);
        const statements = {
          select: `select from ${name} limit 0`,
          insert: `insert into ${name} default values`,
          ...(column && { update: `update ${name} set ${column} = ${column} where false` }),
          delete: `delete from ${name} where false`,
          truncate: `truncate ${name}`,
        };
        for (const [privilege, statement] of Object.entries(statements)) {
          // Writing to a view that joins is refused before anybody's rights are looked at.
          const refused =
            kind === "v" && privilege !== "select"
              ? !(await subject.value("select has_table_privilege($1, $2, $3)", [subject.role(role), name, privilege]))
              : denied(await attempt(as(role), statement));
          assert.equal(refused, !granted.has(privilege), `${role} ${privilege} ${name}`);
        }
      }
    });
  }
});

/** Refused by the catalogue, not by what the function itself says. */
function denied(refusal: Awaited<ReturnType<typeof attempt>>): boolean {
  return refusal?.code === "42501" && /^permission denied for/.test(refusal.message);
}
