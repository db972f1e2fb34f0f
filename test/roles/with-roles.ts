/**
 * A test ledger that has roles, under a prefix of this file's own, for roles belong to the whole cluster: logins for them,
 * and their end. What the tests look at as superuser is the ledger's own (test/harness/ledger.ts).
 */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { type Ledger, openLedger } from "../../src/index.ts";
import { ROLES, type Role } from "../../src/store/role-matrix.ts";
import { applyRoles } from "../../src/store/roles.ts";
import { openTestLedger, type TestLedger } from "../harness/ledger.ts";

export interface Login {
  readonly name: string;
  readonly connectionString: string;
  /** A session of its own. */
  connect(): Promise<pg.Client>;
  /** The ledger as this login opens it. */
  open(): Promise<Ledger>;
}

export interface RoleLedger extends TestLedger {
  readonly prefix: string;
  /** The name of a role of this ledger. */
  role(role: Role): string;
  /** A login with these roles, and with nothing else. */
  login(label: string, ...roles: readonly Role[]): Promise<Login>;
}

/** A prefix that nobody else has. */
export function newPrefix(): string {
  return `test_${randomBytes(6).toString("hex")}_`;
}

/** To be called at the top of a test file. */
export async function openRoleLedger(): Promise<RoleLedger> {
  const test = await openTestLedger();
  const prefix = newPrefix();
  test.atEnd(() => dropRoles(test.connectionString, prefix));
  await applyRoles(test.connectionString, { prefix, create: true });
  return {
    ...test,
    prefix,
    role: (role) => `${prefix}${role}`,
    async login(label, ...roles) {
      const made = await makeLogin(
        test.connectionString,
        `${prefix}${label}`,
        roles.map((role) => `${prefix}${role}`),
      );
      return {
        ...made,
        async connect() {
          const client = new pg.Client({ connectionString: made.connectionString, statement_timeout: 60_000 });
          await client.connect();
          test.atEnd(() => client.end());
          return client;
        },
        async open() {
          const ledger = await openLedger({ connectionString: made.connectionString });
          test.atEnd(() => ledger.close());
          return ledger;
        },
      };
    },
  };
}

/** Makes a login that is a member of roles. */
export async function makeLogin(
  connectionString: string,
  name: string,
  roles: readonly string[],
  attributes = "",
): Promise<{ readonly name: string; readonly connectionString: string }> {
  const password = randomBytes(12).toString("hex");
  await asSuperuser(connectionString, async (client) => {
    await client.query(`create role ${name} login ${attributes} password '${password}'`);
    for (const role of roles) await client.query(`grant ${role} to ${name}`);
  });
  const url = new URL(connectionString);
  url.username = name;
  url.password = password;
  return { name, connectionString: url.href };
}

/** Drops every role of a prefix, with what it owns and was granted in this database. */
export async function dropRoles(connectionString: string, prefix: string): Promise<void> {
  await asSuperuser(connectionString, async (client) => {
    const { rows } = await client.query<{ rolname: string }>(
      "select rolname from pg_roles where starts_with(rolname, $1)",
      [prefix],
    );
    const names = rows.map(({ rolname }) => rolname);
    if (names.length === 0) return;
    await client.query(`reassign owned by ${names.join(", ")} to current_user`);
    await client.query(`drop owned by ${names.join(", ")}`);
    await client.query(`drop role ${names.join(", ")}`);
  });
}

/** Every role, but the one that owns it all. */
export const GRANTEES = ROLES.filter((role) => role !== "schema");

async function asSuperuser<Result>(
  connectionString: string,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
