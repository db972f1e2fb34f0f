/** Making the roles and granting: by a superuser, by a deployer, by a DBA with the printed SQL, and again (docs/roles.md). */
import assert from "node:assert/strict";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import pg from "pg";
import { openLedger } from "../../src/index.ts";
import { migrate, migrateSchema } from "../../src/store/migrate.ts";
import { ROLES } from "../../src/store/role-matrix.ts";
import { applyRoles } from "../../src/store/roles.ts";
import { cli, cliJson, failing } from "../cli/run.ts";
import { createTestDatabase } from "../harness/database.ts";
import { dropRoles, makeLogin, newPrefix } from "./with-roles.ts";

/** An empty database, a prefix of its own, and a superuser's session, until the file ends. */
async function fresh() {
  const { connectionString, name, drop } = await createTestDatabase(null);
  const [prefix, otherPrefix] = [newPrefix(), newPrefix()];
  const client = new pg.Client({ connectionString });
  await client.connect();
  after(async () => {
    await client.end();
    for (const each of [prefix, otherPrefix]) await dropRoles(connectionString, each);
    await drop();
  });
  const value = async <Value>(text: string, values: readonly unknown[] = []) => {
    const { rows } = await client.query({ text, values: [...values], rowMode: "array" });
    return (rows as unknown[][])[0]?.[0] as Value;
  };
  /** Who deploys: owns the database, and has these roles and attributes. */
  const deployer = async (attributes: string, ...roles: readonly string[]) => {
    const login = await makeLogin(connectionString, `${prefix}deployer`, roles, attributes);
    await client.query(`alter database ${name} owner to ${login.name}`);
    return login;
  };
  return { connectionString, prefix, otherPrefix, client, value, deployer };
}

/** Everything that is granted, whoever granted it, without the prefix. */
const GRANTS = `select replace(string_agg(line, e'\\n' order by line collate "C"), $1, '') from (
    select 'schema ' || nspname || ' ' || grants.to || ' ' || grants.privilege || ' of ' || pg_get_userbyid(nspowner) as line
      from pg_namespace cross join lateral (select case grantee when 0 then 'public' else pg_get_userbyid(grantee) end as to, privilege_type as privilege
        from aclexplode(nspacl)) as grants where nspname ~ '^(effects|audit)'
    union all select relkind::text || ' ' || c.oid::regclass || ' ' || grants.to || ' ' || grants.privilege || ' of ' || pg_get_userbyid(relowner)
      from pg_class c cross join lateral (select case grantee when 0 then 'public' else pg_get_userbyid(grantee) end as to, privilege_type as privilege
        from aclexplode(relacl)) as grants where relnamespace::regnamespace::text ~ '^(effects|audit)'
    union all select 'function ' || p.oid::regprocedure || ' ' || grants.to || ' of ' || pg_get_userbyid(proowner)
      from pg_proc p cross join lateral (select case grantee when 0 then 'public' else pg_get_userbyid(grantee) end as to
        from aclexplode(coalesce(proacl, acldefault('f', proowner)))) as grants where pronamespace::regnamespace::text ~ '^(effects|audit)'
    union all select 'policy ' || polname || ' ' || polrelid::regclass from pg_policy) as granted`;

/** What a superuser's \`migrate --roles create\` grants: the others are compared with it. */
let reference: string;

test("create makes what is missing, hands everything over and grants; again it changes nothing", async () => {
  const { connectionString, prefix, value } = await fresh();
  const first = await migrate({ connectionString, ledger: "shop", roles: "create", rolePrefix: prefix });
  assert.deepEqual({ ledger: first.ledger, rolePrefix: first.rolePrefix }, { ledger: "shop", rolePrefix: prefix });
  reference = await value<string>(GRANTS, [prefix]);
  assert.ok(reference.split("\n").length > 200);
  assert.doesNotMatch(reference, / public/);
  assert.equal(
    await value("select count(*) from pg_roles where starts_with(rolname, $1)", [prefix]),
    String(ROLES.length),
  );
  const before = await value("select md5(identity::text) from effects_ledger.identity");
  for (const again of [{}, { roles: "existing" }, { roles: "create", rolePrefix: prefix }] as const) {
    assert.deepEqual(await migrate({ connectionString, ...again }), {
      applied: [],
      ledger: "shop",
      rolePrefix: prefix,
    });
  }
  assert.equal(await value(GRANTS, [prefix]), reference);
  assert.equal(await value("select md5(identity::text) from effects_ledger.identity"), before);
  assert.equal(
    await value("select string_agg(change || ' ' || after::text, ', ') from audit.authority"),
    `roles set {"prefix": "${prefix}"}`,
  );
  assert.equal(await value("select standing from audit.ledger"), "ok");
  assert.equal(await value("select count(*) from audit.violations"), "0");
});

test("existing refuses while roles are missing, names each, and has done nothing by then", async () => {
  const { connectionString, prefix, client, value } = await fresh();
  for (const role of ["schema", "owner", "service"]) await client.query(`create role ${prefix}${role}`);
  await assert.rejects(migrate({ connectionString, roles: "existing", rolePrefix: prefix }), {
    code: "roles_missing",
    message: `roles are missing: ${["worker", "operator", "approver", "auditor"].map((role) => prefix + role).join(", ")}`,
    hint: new RegExp(`create role ${prefix}worker nologin;`),
  });
  assert.equal(
    await value("select to_regnamespace('effects') is null and to_regnamespace('effects_queue') is null"),
    true,
  );
  for (const role of ["worker", "operator", "approver", "auditor"]) await client.query(`create role ${prefix}${role}`);
  await migrate({ connectionString, roles: "existing", rolePrefix: prefix });
  assert.equal(await value(GRANTS, [prefix]), reference);
});

test("a deployer who owns the database and may create roles needs no superuser, the first time and later", async () => {
  const { prefix, value, deployer } = await fresh();
  const { connectionString } = await deployer("createrole");
  await migrate({ connectionString, roles: "create", rolePrefix: prefix });
  assert.equal(await value(GRANTS, [prefix]), reference);
  await migrate({ connectionString });
  assert.equal(await value(GRANTS, [prefix]), reference);
});

test("a deployer who is a member of the schema role, and may create none, uses what a DBA made", async () => {
  const { prefix, client, value, deployer } = await fresh();
  for (const role of ROLES) await client.query(`create role ${prefix}${role}`);
  const login = await deployer("");
  await assert.rejects(migrate({ connectionString: login.connectionString, roles: "existing", rolePrefix: prefix }), {
    code: "roles_denied",
    message: `${login.name} is no member of ${prefix}schema`,
    hint: new RegExp(`^grant ${prefix}schema to ${login.name}`),
  });
  assert.equal(await value("select to_regnamespace('effects') is null"), true);
  await client.query(`grant ${prefix}schema to ${login.name}`);
  await migrate({ connectionString: login.connectionString, roles: "existing", rolePrefix: prefix });
  assert.equal(await value(GRANTS, [prefix]), reference);
});

test("a login that may not create roles is told so before anything is done", async () => {
  const { prefix, value, deployer } = await fresh();
  const login = await deployer("");
  await assert.rejects(migrate({ connectionString: login.connectionString, roles: "create", rolePrefix: prefix }), {
    code: "roles_denied",
    message: `${login.name} may not create roles`,
    hint: /--print/,
  });
  assert.equal(await value("select to_regnamespace('effects') is null"), true);
});

test("the printed SQL, run by a superuser after a plain migrate, grants the same, and again", async () => {
  const { connectionString, prefix, client, value } = await fresh();
  await migrate({ connectionString, ledger: "shop" });
  assert.equal(await value("select role_prefix from audit.ledger"), null);
  const { stdout, exit } = await cli(["migrate", "--roles", "create", "--role-prefix", prefix, "--print"]);
  assert.equal(exit, 0);
  await client.query(stdout);
  assert.equal(await value(GRANTS, [prefix]), reference);
  await client.query(stdout);
  await migrate({ connectionString });
  assert.equal(await value(GRANTS, [prefix]), reference);
  assert.equal(await value("select standing from audit.ledger"), "ok");
});

test("the printed SQL changes nothing in a database without a ledger, or of a ledger with other roles", async () => {
  const { connectionString, prefix, otherPrefix, client, value } = await fresh();
  const { document } = await cliJson<{ sql: string }>([
    "migrate",
    "--roles",
    "create",
    "--role-prefix",
    prefix,
    "--print",
  ]);
  await assert.rejects(client.query(document.sql));
  await client.query("rollback");
  await migrate({ connectionString, roles: "create", rolePrefix: otherPrefix });
  await assert.rejects(client.query(document.sql), { code: "55000", message: /another prefix/ });
  await client.query("rollback");
  assert.equal(await value("select count(*) from pg_roles where starts_with(rolname, $1)", [prefix]), "0");
});

test("what a later migration makes is handed over and granted by the next migrate; what no line gives is taken back", async () => {
  const { prefix, client, value, deployer } = await fresh();
  const login = await deployer("createrole");
  await migrate({ connectionString: login.connectionString, roles: "create", rolePrefix: prefix });
  const folder = await mkdtemp(join(tmpdir(), "pg-effects-roles-"));
  after(() => rm(folder, { recursive: true }));
  await cp(join(import.meta.dirname, "..", "..", "migrations"), folder, { recursive: true });
  const number = await value<number>("select max(number) + 1 from effects_migrations.applied");
  await writeFile(
    join(folder, `${String(number).padStart(4, "0")}_later.sql`),
    `-- Invariants established here: none.
     create table effects_ledger.later (id int);
     create view audit.later as select id from effects_ledger.later;
     create function effects_ledger.later() returns int language sql security definer as 'select 1';`,
  );
  await migrateSchema(login.connectionString, folder);
  await client.query(`grant execute on function effects.set_budget to ${prefix}service`);
  await applyRoles(login.connectionString, { prefix, create: false });
  const added = (await value<string>(GRANTS, [prefix]))
    .split("\n")
    .filter((line) => !reference.split("\n").includes(line));
  assert.deepEqual(
    added,
    [
      "function effects_ledger.later() schema of schema",
      ...["auditor", "operator", "owner"].map((role) => `v audit.later ${role} SELECT of schema`),
      ...(await ownersGrants("later", client, prefix)),
    ].sort(),
  );
});

test("a ledger keeps the roles that it has", async () => {
  const { connectionString, prefix } = await fresh();
  await migrate({ connectionString, roles: "create", rolePrefix: prefix });
  await assert.rejects(migrate({ connectionString, rolePrefix: "other_" }), {
    code: "roles_differ",
    message: new RegExp(prefix),
  });
  await assert.rejects(migrate({ connectionString, roles: "create", rolePrefix: "other_" }), { code: "roles_differ" });
  await assert.rejects(migrate({ connectionString, roles: "single" }), { code: "roles_differ" });
});

test("without the option a fresh ledger has no roles, and gets them later when asked", async () => {
  const { connectionString, prefix, value } = await fresh();
  assert.equal((await migrate({ connectionString })).rolePrefix, null);
  assert.equal((await migrate({ connectionString, roles: "single" })).rolePrefix, null);
  assert.equal(await value("select effects_ledger.may_serve('anybody', null)"), true);
  await migrate({ connectionString, roles: "create", rolePrefix: prefix });
  assert.equal(await value("select effects_ledger.may_serve('anybody', null)"), false);
  assert.equal(await value("select effects_ledger.may_serve($1, null)", [`${prefix}service`]), true);
});

test("a role that was dropped is nobody's, and no error", async () => {
  const { connectionString, prefix, client, value } = await fresh();
  await migrate({ connectionString, roles: "create", rolePrefix: prefix });
  await client.query(`drop owned by ${prefix}service; drop role ${prefix}service`);
  assert.equal(await value("select effects_ledger.may_serve($1, null)", [`${prefix}worker`]), false);
  await assert.rejects(migrate({ connectionString }), {
    code: "roles_missing",
    message: `roles are missing: ${prefix}service`,
  });
  await migrate({ connectionString, roles: "create" });
  assert.equal(await value(GRANTS, [prefix]), reference);
});

test("two ledgers in one cluster with prefixes of their own let nobody of the other in", async () => {
  const [one, two] = [await fresh(), await fresh()];
  for (const { connectionString, prefix } of [one, two])
    await migrate({ connectionString, roles: "create", rolePrefix: prefix });
  const login = await makeLogin(one.connectionString, `${one.prefix}login`, [`${one.prefix}service`]);
  await (await openLedger({ connectionString: login.connectionString })).close();
  const elsewhere = new URL(login.connectionString);
  elsewhere.pathname = new URL(two.connectionString).pathname;
  await assert.rejects(openLedger({ connectionString: elsewhere.href }), { code: "42501" });
});

test("a prefix is lower-case, ends with an underscore, and is not Postgres' own", async () => {
  const { connectionString } = await fresh();
  for (const rolePrefix of ["", "shop", "Shop_", "1_", "pg_", "pg_shop_", "a-b_", 'a"_', `${"a".repeat(41)}_`]) {
    await assert.rejects(
      migrate({ connectionString, roles: "create", rolePrefix }),
      { code: "role_prefix_invalid" },
      rolePrefix,
    );
  }
  await assert.rejects(migrate({ connectionString, rolePrefix: "shop_" }), { code: "role_prefix_invalid" });
});

test("the command line says which roles there are, and words each refusal", async () => {
  const { connectionString: database, prefix } = await fresh();
  const made = await cliJson<{ roles: string[] }>(["migrate", "--roles", "create", "--role-prefix", prefix], {
    database,
  });
  assert.deepEqual([made.exit, made.document.roles], [0, ROLES.map((role) => prefix + role)]);
  const refused = async (...flags: readonly string[]) => {
    const { code, exit } = await failing(["migrate", ...flags], { database });
    return { code, exit };
  };
  assert.deepEqual(await refused("--roles", "single"), { code: "roles_differ", exit: 4 });
  assert.deepEqual(await refused("--roles", "some"), { code: "usage_invalid", exit: 2 });
  assert.deepEqual(await refused("--print"), { code: "usage_invalid", exit: 2 });
  assert.deepEqual(await refused("--roles", "create", "--role-prefix", "Shop"), { code: "roles_differ", exit: 4 });
});

/** Privileges of the owner's own on a relation, which differ between versions of Postgres. */
async function ownersGrants(name: string, client: pg.Client, prefix: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ line: string }>(
    `select replace(relkind::text || ' ' || c.oid::regclass || ' schema ' || privilege_type || ' of schema', $2, '') as line
       from pg_class c cross join lateral aclexplode(relacl) as a
      where relname = $1 and a.grantee = relowner`,
    [name, prefix],
  );
  return rows.map(({ line }) => line);
}
