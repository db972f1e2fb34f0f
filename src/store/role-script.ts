/**
 * The roles of a ledger as one SQL script: what `migrate` runs, and what it prints for a DBA, word for word. It may run
 * again at any time: it hands over what is new, takes back what is no longer in role-matrix.ts, and grants the rest.
 */
import { AUDIT_READERS, FUNCTIONS, type Grantee, ROLES, type Role, SCHEMAS, TABLES, VIEWS } from "./role-matrix.ts";

/** Two migrations at once wait for each other here. The number is arbitrary, and only this project's. */
export const MIGRATION_LOCK = 7_305_616_201;

export interface RoleScriptOptions {
  /** As `checkPrefix` let it pass: it stands in the script without quotes. */
  readonly prefix: string;
  /** Makes the roles that are missing. Without it they must be there. */
  readonly create: boolean;
}

/** What each role is for, as its comment in the catalogue. */
const PURPOSE: Readonly<Record<Role, string>> = {
  schema: "owns every object of the ledger; whoever migrates is a member",
  owner: "decides what is allowed: operations, policies, budgets, root tasks, approvers, actors",
  service: "requests effects, and observes its own",
  worker: "prepares, admits, sends and records",
  operator: "observes all, asks recipients, pauses, and takes authority away",
  approver: "reads what awaits approval, approves or refuses",
  auditor: "reads the schema audit",
};

/** The script, as one transaction. */
export function roleScript({ prefix, create }: RoleScriptOptions): string {
  const name = (role: Role) => `${prefix}${role}`;
  const names = (roles: readonly Role[]) => roles.map(name).join(", ");
  const grantees = ROLES.filter((role): role is Grantee => role !== "schema");
  const schemas = Object.keys(SCHEMAS).join(", ");
  const grant = (privileges: string, on: string, roles: readonly Grantee[]) =>
    roles.length === 0 ? [] : [`grant ${privileges} on ${on} to ${names(roles)};`];
  return [
    "-- The roles of a pg-effects ledger (docs/roles.md). Run it in the ledger's database, after `pg-effects migrate`, as a",
    "-- superuser, or as the database's owner who may create roles. It may run again.",
    "begin;",
    "set local search_path = pg_catalog, pg_temp;",
    `select pg_advisory_xact_lock(${MIGRATION_LOCK});`,
    checkRecorded(prefix),
    ...(create
      ? ["", "-- None of them can log in: grant them to logins.", createRoles(name)]
      : ["", "-- Nobody logs in as the owner of it all: whoever migrates is a member."]),
    joinSchemaRole(name("schema")),
    "",
    `-- Everything is ${name("schema")}'s: what raises privilege runs with its rights, and with nobody else's.`,
    handOver(name("schema")),
    "",
    "-- What was granted before is taken back, so that what follows is all there is.",
    `revoke all on schema ${schemas} from public, ${names(grantees)};`,
    `revoke all on all tables in schema ${schemas} from public, ${names(grantees)};`,
    `revoke all on all routines in schema ${schemas} from public, ${names(grantees)};`,
    "",
    ...Object.entries<readonly Grantee[]>(SCHEMAS).flatMap(([schema, roles]) =>
      grant("usage", `schema ${schema}`, roles),
    ),
    "",
    ...grant("select", "all tables in schema audit", AUDIT_READERS),
    ...grant("execute", "all routines in schema audit", AUDIT_READERS),
    ...Object.entries(VIEWS).flatMap(([view, roles]) => grant("select", view, roles)),
    "",
    ...Object.entries(FUNCTIONS).flatMap(([routine, roles]) => grant("execute", `function ${routine}`, roles)),
    ...grant("execute", "all routines in schema effects_queue", ["worker"]),
    "",
    ...Object.entries(TABLES).flatMap(([table, { to, privileges }]) => grant(privileges.join(", "), table, [to])),
    "",
    "-- graphile-worker's tables have row security without policies: without these a worker sees no job, and runs nothing.",
    letWorkerSeeJobs(name("worker")),
    "",
    recordPrefix(prefix),
    "commit;",
    "",
  ].join("\n");
}

function checkRecorded(prefix: string): string {
  return block(`
  if not exists (select from effects_ledger.identity) then
    raise exception 'this database holds no ledger yet' using errcode = '55000', hint = 'run pg-effects migrate first';
  elsif exists (select from effects_ledger.identity i where i.role_prefix <> '${prefix}') then
    raise exception 'this ledger''s roles begin with another prefix' using errcode = '55000', hint = 'audit.ledger shows it';
  end if;`);
}

function createRoles(name: (role: Role) => string): string {
  return block(
    ROLES.map(
      (role) => `
  if to_regrole('${name(role)}') is null then
    create role ${name(role)} nologin;
    comment on role ${name(role)} is 'pg-effects: ${PURPOSE[role]}';
  end if;`,
    ).join(""),
  );
}

/** Who may hand objects over must be able to become their new owner; a superuser is already. */
function joinSchemaRole(schema: string): string {
  return block(`
  if not pg_has_role(current_user, '${schema}', 'USAGE') then
    execute format('grant ${schema} to %I', current_user);
  end if;
  if not has_database_privilege('${schema}', current_database(), 'CREATE') then
    execute format('grant create on database %I to ${schema}', current_database());
  end if;`);
}

function handOver(schema: string): string {
  const ours = Object.keys(SCHEMAS)
    .map((each) => `'${each}'`)
    .join(", ");
  return block(
    `
  for object in
    select format('schema %I', n.nspname) as named, 1 as place from pg_namespace n
     where n.nspname in (${ours}) and n.nspowner <> to_regrole('${schema}')
    union all
    select format('%s %s', case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end, c.oid::regclass), 2
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in (${ours}) and c.relkind in ('r', 'p', 'v', 'S') and c.relowner <> to_regrole('${schema}')
       and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i'))
    union all
    select format('routine %s', p.oid::regprocedure), 3
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname in (${ours}) and p.proowner <> to_regrole('${schema}')
    union all
    select format('type %s', t.oid::regtype), 4
      from pg_type t join pg_namespace n on n.oid = t.typnamespace join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
     where n.nspname in (${ours}) and t.typowner <> to_regrole('${schema}')
    order by place
  loop
    execute format('alter %s owner to ${schema}', object.named);
  end loop;`,
    "object record;",
  );
}

function letWorkerSeeJobs(worker: string): string {
  return block(
    `
  for guarded in
    select c.oid::regclass as named from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'effects_queue' and c.relrowsecurity
       and not exists (select from pg_policy p where p.polrelid = c.oid and p.polname = '${worker} sees every row')
  loop
    execute format('create policy "${worker} sees every row" on %s to ${worker} using (true) with check (true)', guarded.named);
  end loop;`,
    "guarded record;",
  );
}

function recordPrefix(prefix: string): string {
  return block(`
  update effects_ledger.identity set role_prefix = '${prefix}', written_by = pg_current_xact_id() where role_prefix is null;
  if found then
    perform effects_ledger.record_authority('roles set', 'ledger ' || i.name, null, '{"prefix": "${prefix}"}', null)
       from effects_ledger.identity i;
  end if;`);
}

function block(body: string, declare = ""): string {
  return `do $$\n${declare && `declare\n  ${declare}\n`}begin${body}\nend $$;`;
}
