/**
 * The roles of a ledger, from the side of `migrate`: which it has, which are missing, and their grants. What each role may
 * do is role-matrix.ts; the SQL is role-script.ts.
 */
import type pg from "pg";
import { LedgerError } from "../core/error.ts";
import { driverCode, openClient, wordConnectionError } from "./connection.ts";
import { DEFAULT_PREFIX, ROLES } from "./role-matrix.ts";
import { roleScript } from "./role-script.ts";

/**
 * `create`: makes what is missing; `existing`: somebody made the roles; `single`: whoever owns the schema does everything.
 */
export const ROLE_MODES = ["create", "existing", "single"] as const;
export type RoleMode = (typeof ROLE_MODES)[number];

export interface RoleOptions {
  /** Default: what the ledger has already; on a fresh one `single`. */
  readonly roles?: RoleMode;
  /** Default: what the ledger has already, else `effects_`. */
  readonly rolePrefix?: string;
}

/** What `migrate` is to do about roles; null where it is nothing. */
export interface RolePlan {
  readonly prefix: string;
  readonly create: boolean;
}

/** The prefix of names, checked: it stands in SQL without quotes. @throws LedgerError `role_prefix_invalid` */
export function checkPrefix(prefix: string = DEFAULT_PREFIX): string {
  if (/^[a-z][a-z0-9_]{0,39}_$/.test(prefix) && !prefix.startsWith("pg_")) return prefix;
  throw new LedgerError("role_prefix_invalid", `the role prefix ${JSON.stringify(prefix)} is refused`, {
    hint: "lower-case letters, digits and _, at most 41, ending with _, and not beginning with pg_: shop_",
  });
}

/**
 * What is asked for, held against what the ledger has.
 * @throws LedgerError `roles_differ` where it has other roles; `roles_missing` where the roles are not there.
 */
export async function planRoles(connectionString: string, options: RoleOptions): Promise<RolePlan | null> {
  const client = await openClient(connectionString, "pg-effects migrate");
  try {
    const recorded = await recordedPrefix(client);
    if (recorded !== null && options.roles === "single") {
      throw new LedgerError("roles_differ", `this ledger's roles begin with ${recorded}`, {
        hint: "a ledger that has roles keeps them: leave --roles out",
      });
    }
    if (recorded !== null && options.rolePrefix !== undefined && options.rolePrefix !== recorded) {
      throw new LedgerError("roles_differ", `this ledger's roles begin with ${recorded}, not ${options.rolePrefix}`, {
        hint: "leave --role-prefix out",
      });
    }
    const mode = options.roles ?? (recorded === null ? "single" : "existing");
    if (mode === "single" && options.rolePrefix !== undefined) {
      throw new LedgerError("role_prefix_invalid", "a role prefix is given, and no roles", {
        hint: "say --roles create, or --roles existing where somebody made them",
      });
    }
    if (mode === "single") return null;
    const prefix = checkPrefix(recorded ?? options.rolePrefix);
    const missing = await missingRoles(client, prefix);
    if (mode === "existing") refuseMissing(missing);
    await checkLogin(client, prefix, missing);
    return { prefix, create: mode === "create" };
  } catch (error) {
    throw wordDenied(error);
  } finally {
    await client.end();
  }
}

/**
 * Runs the script, whole or not at all.
 * @throws LedgerError `roles_denied` where the login may not do it.
 */
export async function applyRoles(connectionString: string, plan: RolePlan): Promise<void> {
  const client = await openClient(connectionString, "pg-effects migrate");
  try {
    await client.query(roleScript(plan));
  } catch (error) {
    if (driverCode(error) === "42883" || driverCode(error) === "42P01") throw wordOtherVersion(error);
    throw wordDenied(error);
  } finally {
    await client.end();
  }
}

/** Null where no ledger is founded yet, or one without roles. */
async function recordedPrefix(client: pg.Client): Promise<string | null> {
  const { rows: founded } = await client.query(
    `select from pg_attribute where attrelid = to_regclass('effects_ledger.identity') and attname = 'role_prefix'`,
  );
  if (founded.length === 0) return null;
  const { rows } = await client.query<{ role_prefix: string | null }>(
    "select role_prefix from effects_ledger.identity",
  );
  return rows[0]?.role_prefix ?? null;
}

async function missingRoles(client: pg.Client, prefix: string): Promise<readonly string[]> {
  const names = ROLES.map((role) => `${prefix}${role}`);
  const { rows } = await client.query<{ name: string }>(
    "select name from unnest($1::text[]) with ordinality as n(name, place) where to_regrole(name) is null order by place",
    [names],
  );
  return rows.map(({ name }) => name);
}

function refuseMissing(missing: readonly string[]): void {
  if (missing.length === 0) return;
  throw new LedgerError("roles_missing", `roles are missing: ${missing.join(", ")}`, {
    hint: `${missing.map((name) => `create role ${name} nologin;`).join(" ")} or let migrate do it: --roles create`,
  });
}

/** Before anything is done: may this login make the roles that are missing, and become their owner of everything? */
async function checkLogin(client: pg.Client, prefix: string, missing: readonly string[]): Promise<void> {
  const schema = `${prefix}schema`;
  const { rows } = await client.query<{ login: string; superuser: boolean; creates: boolean; member: boolean }>(
    `select rolname as login, rolsuper as superuser, rolcreaterole as creates,
            coalesce(pg_has_role(oid, to_regrole($1), 'USAGE'), false) as member
       from pg_roles where rolname = current_user`,
    [schema],
  );
  const [{ login, superuser, creates, member } = { login: "", superuser: false, creates: false, member: false }] = rows;
  if (superuser || (missing.length === 0 && member) || (missing.includes(schema) && creates)) return;
  const message = missing.length > 0 ? `${login} may not create roles` : `${login} is no member of ${schema}`;
  throw new LedgerError("roles_denied", message, {
    hint: deniedHint(missing.length > 0 ? null : `grant ${schema} to ${login}`),
  });
}

function wordDenied(error: unknown): unknown {
  if (error instanceof LedgerError || driverCode(error) !== "42501") return wordConnectionError(error);
  return new LedgerError("roles_denied", error instanceof Error ? error.message : String(error), {
    hint: deniedHint(null),
    cause: error,
  });
}

/** The script names each function and view, so that a database of another version is not granted by halves. */
function wordOtherVersion(error: unknown): LedgerError {
  return new LedgerError("roles_unmatched", error instanceof Error ? error.message : String(error), {
    hint: "the database is not at this version: run the pg-effects that migrated it; nothing was granted",
    cause: error,
  });
}

function deniedHint(grant: string | null): string {
  const login = grant ?? "migrate as a superuser, or as the database's owner and a member of the ledger's role schema";
  return `${login}; or hand a DBA the SQL: migrate --roles create --print`;
}
