/**
 * The demo's three databases on one server: the ledger, the recipient of `postgres_insert`, the plain queue. The recipient
 * counts for itself which inserts arrived, by sequences, which a transaction that is rolled back does not take back.
 */
import { randomBytes } from "node:crypto";
import type pg from "pg";
import { escapeLiteral } from "pg";
import { openClient, openPool } from "../store/connection.ts";
import { migrate } from "../store/migrate.ts";

export const LEDGER_NAME = "demo";

/** Who packs a shipment tells its two sides apart: pg-effects, and the plain queue. */
export const PACKERS = { effects: "pg-effects", plain: "plain queue" } as const;

/** The role that inserts has what `tasks/postgres_insert.ts` asks for, and no more. */
const RECIPIENT_SQL = (markTable: string, password: string) => `
${markTable}
create table public.shipment (
  id bigint generated always as identity primary key,
  order_no text not null,
  packed_by text not null
);
create sequence public.arrived_effects;
create sequence public.arrived_plain;
create function public.count_arrival() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp
  as $$ begin perform nextval(tg_argv[0]::regclass); return new; end $$;
create trigger "an insert of an effect arrived" before insert on public.pg_effects_mark for each row
  when (new.kind = 'effect') execute function public.count_arrival('public.arrived_effects');
create trigger "a plain insert arrived" before insert on public.shipment for each row
  when (new.packed_by = '${PACKERS.plain}') execute function public.count_arrival('public.arrived_plain');
create role recipient_writer login password ${escapeLiteral(password)};
grant select, insert on public.pg_effects_mark, public.shipment to recipient_writer;
`;

export interface Databases {
  /** As superuser. */
  readonly ledger: string;
  readonly queue: string;
  /** As the role that inserts, directly; through a proxy only the port differs. */
  readonly recipient: string;
  readonly pools: { readonly ledger: pg.Pool; readonly queue: pg.Pool; readonly recipient: pg.Pool };
}

/** Makes them. `markTable`: the SQL that `tasks/postgres_insert.ts` wants to be run at its recipient once. */
export async function createDatabases(server: string, markTable: string): Promise<Databases> {
  const client = await openClient(server, "pg-effects demo");
  try {
    for (const name of ["ledger", "recipient", "queue"]) await client.query(`create database ${name}`);
  } finally {
    await client.end();
  }
  const at = (database: string) => withParts(server, { database });
  const password = randomBytes(24).toString("base64url");
  await migrate({ connectionString: at("ledger"), ledger: LEDGER_NAME });
  const recipient = await openClient(at("recipient"), "pg-effects demo");
  try {
    await recipient.query(RECIPIENT_SQL(markTable, password));
  } finally {
    await recipient.end();
  }
  const pool = (database: string) =>
    openPool({ connectionString: at(database), applicationName: "pg-effects demo", max: 3 });
  return {
    ledger: at("ledger"),
    queue: at("queue"),
    recipient: withParts(server, { database: "recipient", user: "recipient_writer", password }),
    pools: { ledger: pool("ledger"), queue: pool("queue"), recipient: pool("recipient") },
  };
}

/** A connection string with some of its parts replaced. */
export function withParts(
  connectionString: string,
  parts: { readonly database?: string; readonly user?: string; readonly password?: string; readonly port?: number },
): string {
  const url = new URL(connectionString);
  if (parts.database !== undefined) url.pathname = `/${parts.database}`;
  if (parts.user !== undefined) url.username = parts.user;
  if (parts.password !== undefined) url.password = parts.password;
  if (parts.port !== undefined) url.port = String(parts.port);
  return url.href;
}

/** What the recipient has, and how many inserts have reached it, whatever became of them. */
export async function countShipments(
  recipient: pg.Pool,
  side: keyof typeof PACKERS,
): Promise<{ readonly rows: number; readonly requests: number }> {
  const { rows } = await recipient.query<{ rows: number; requests: number }>(
    `select (select count(*)::int from public.shipment where packed_by = $1) as rows,
            (select case when is_called then last_value else 0 end::int from public.arrived_${side}) as requests`,
    [PACKERS[side]],
  );
  return rows[0] ?? { rows: -1, requests: -1 };
}
