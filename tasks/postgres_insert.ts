/**
 * postgres_insert: inserts one row into a table of another Postgres database, together with our mark, in one transaction.
 *
 * The mark's primary key is the effect's key, so the mark stands if and only if this effect's row was committed. A void
 * mark under the key makes a late insert do nothing. Both hold while nobody deletes marks: the role that inserts needs
 * INSERT and SELECT on the marks, and must have no more.
 *
 * It must never send a row without its mark, create anything, or take an error of COMMIT's connection for a refusal.
 */
import { createHash } from "node:crypto";
import { Socket } from "node:net";
import pg from "pg";
import { z } from "zod";
import {
  type AdapterContext,
  absent,
  accepted,
  type BoundEffect,
  type DispatchReport,
  defineOperation,
  failed,
  fenced,
  invalid,
  LedgerError,
  notSent,
  unknown,
} from "../src/index.ts";

/** What the recipient's owner runs once, before the first effect, and then grants: see the last lines. */
export const MARK_TABLE_SQL = `
create table if not exists public.pg_effects_mark (
  key text primary key check (key ~ '^[0-9a-f]{32}$'),
  kind text not null check (kind in ('effect', 'void')),
  table_name text not null,
  row_digest text not null,
  marked_at timestamptz not null default clock_timestamp(),
  xid xid8 not null default pg_current_xact_id()
);
comment on table public.pg_effects_mark is
  'One row for each effect of pg-effects that inserted here (effect) or was fenced off (void). Never delete one.';
-- grant select, insert on public.pg_effects_mark to the role of POSTGRES_INSERT_URL; no update, delete or truncate
`;

const IDENTIFIER = /^[a-z_][a-z0-9_]{0,62}$/;
const input = z.strictObject({
  /** `schema.table`, both in lower case. */
  table: z.string().refine((name) => {
    const parts = name.split(".");
    return parts.length === 2 && parts.every((part) => IDENTIFIER.test(part));
  }, "a table is named schema.table, in lower case"),
  /** Column to value. Postgres reads each value as the column's type; a number beyond 2^53 - 1 is given as a string. */
  row: z
    .record(z.string().regex(IDENTIFIER), z.union([z.string(), z.number(), z.boolean(), z.null()]))
    .refine((row) => Object.keys(row).length > 0, "a row has at least one column"),
});
const proof = z.strictObject({ table: z.string(), key: z.string(), xid: z.string() });

type Insert = z.infer<typeof input>;
type Proof = z.infer<typeof proof>;
type Bound = BoundEffect<Insert>;
interface Mark {
  readonly kind: "effect" | "void";
  readonly table_name: string;
  readonly row_digest: string;
  readonly xid: string;
}

export default defineOperation<Insert, Proof, Insert>({
  name: "postgres_insert",
  version: 1,
  input,
  proof,
  contract: {
    absence: { fence: { retentionMs: "kept" } },
    failures: {
      refused_by_constraint: { effect: "none" },
      refused_by_database: { effect: "none" },
      fenced: { effect: "none" },
    },
    accepts: "the row is committed in the other database, together with our mark",
    bindingBytesMax: 16_384, // a row of a few texts
    reference: (inserted) => inserted.xid,
    secrets: ["POSTGRES_INSERT_URL"],
  },

  prepare: async (wanted, context) => {
    const session = await connect(context);
    try {
      const { rows } = await session.client.query<{ marks: boolean; missing: string[] | null }>(
        `select to_regclass('public.pg_effects_mark') is not null as marks,
           (select array_agg(name) from unnest($2::text[]) as wanted (name) where not exists (
             select from pg_attribute where attrelid = to_regclass($1) and attname = name and attnum > 0 and not attisdropped
           )) as missing`,
        [wanted.table, Object.keys(wanted.row)],
      );
      if (!rows[0]?.marks) return invalid("the other database has no pg_effects_mark: run MARK_TABLE_SQL there first");
      if (rows[0].missing) return invalid(`${wanted.table} has no column ${rows[0].missing.join(", ")}`);
      return {
        target: `${session.place} ${wanted.table}`,
        account: session.account,
        payload: wanted,
        preview: `insert one row of ${Object.keys(wanted.row).length} columns into ${wanted.table} at ${session.place}`,
      };
    } finally {
      await session.end();
    }
  },

  dispatch: async (effect, context) => {
    let session: Session;
    try {
      session = await connect(context, effect);
    } catch (error) {
      return notSent({ reason: "no session at the other database", code: codeOf(error) }); // nothing but a login left
    }
    try {
      return await insert(session, effect);
    } finally {
      await session.end();
    }
  },

  reconcile: async (effect, context) => {
    const session = await connect(context, effect);
    try {
      const mark = await readMark(session, effect.key);
      return mark ? judge(mark, effect) : absent({ table: "pg_effects_mark", rows: 0 });
    } finally {
      await session.end();
    }
  },

  fence: async (effect, context) => {
    const session = await connect(context, effect);
    try {
      await session.begin();
      // It waits for a writer in flight under the same key, until that one commits or rolls back.
      await session.mark(effect, "void");
      await session.commit();
      const mark = await readMark(session, effect.key);
      if (mark) return judge(mark, effect);
      throw new LedgerError("fence_lost", "the void mark is not there", {
        hint: "somebody deletes marks: nothing holds",
      });
    } finally {
      await session.end();
    }
  },
});

async function insert(session: Session, effect: Bound): Promise<DispatchReport<Proof>> {
  const { client } = session;
  const columns = Object.keys(effect.payload.row);
  const table = effect.payload.table.split(".").map(pg.escapeIdentifier).join(".");
  const names = columns.map(pg.escapeIdentifier).join(", ");
  const places = columns.map((_, index) => `$${index + 1}`).join(", ");
  try {
    await session.begin();
    const xid = await session.mark(effect, "effect");
    if (xid === null) {
      await client.query("rollback");
      const stands = await readMark(session, effect.key);
      if (stands?.kind === "void") return failed({ code: "fenced" });
      return unknown("a mark stands under this key already, not by this dispatch");
    }
    await client.query(`insert into ${table} (${names}) values (${places})`, Object.values(effect.payload.row));
    await session.commit();
    return accepted({ table: effect.payload.table, key: effect.key, xid });
  } catch (error) {
    const refused = refusalOf(error);
    if (refused) return refused;
    throw error;
  }
}

/**
 * Postgres' own refusals (SQLSTATE classes): the statement failed, so the transaction cannot commit any more. Any other
 * error says nothing about what a COMMIT on its way does.
 */
function refusalOf(error: unknown): DispatchReport<Proof> | null {
  if (!(error instanceof pg.DatabaseError) || error.code === undefined) return null;
  const told = { sqlstate: error.code, constraint: error.constraint ?? null, column: error.column ?? null };
  const group = error.code.slice(0, 2);
  if (group === "23") return refusal("refused_by_constraint", told);
  // 22 data, 25 read-only, 40 rolled back, 42 names and privileges, 44 check option of a view, P0 raised by a trigger
  return ["22", "25", "40", "42", "44", "P0"].includes(group) ? refusal("refused_by_database", told) : null;
}

function refusal(code: string, told: Readonly<Record<string, unknown>>): DispatchReport<Proof> {
  return failed({ code, ...told });
}

function judge(mark: Mark, { key, payload }: Bound) {
  if (mark.kind === "void") return fenced({ key, xid: mark.xid });
  if (mark.table_name !== payload.table || mark.row_digest !== digest(payload)) {
    return unknown("the mark under this key is for another row than the bound one");
  }
  return accepted({ table: payload.table, key, xid: mark.xid });
}

async function readMark({ client }: Session, key: string): Promise<Mark | null> {
  const { rows } = await client.query<Mark>(
    `select kind, left(table_name, 200) as table_name, left(row_digest, 64) as row_digest, xid::text
       from public.pg_effects_mark where key = $1`,
    [key],
  );
  return rows[0] ?? null;
}

/** Over the bound row, so that a lookup compares what was inserted with what was bound. */
function digest({ table, row }: Insert): string {
  const pairs = Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify([table, pairs]))
    .digest("hex");
}

interface Session {
  readonly client: pg.Client;
  /** host:port/database */
  readonly place: string;
  readonly account: string;
  begin(): Promise<void>;
  /** Writes a mark and answers its transaction id, or null where one stood already. */
  mark(effect: Bound, kind: Mark["kind"]): Promise<string | null>;
  commit(): Promise<void>;
  end(): Promise<void>;
}

/**
 * One connection, without a pool. The signal destroys its socket, and the server's own timeouts, which end with the
 * window, end what it may still be doing then.
 * @throws LedgerError `account_differs` when the secret names another place than the effect was bound to.
 */
async function connect(context: AdapterContext, effect?: Bound): Promise<Session> {
  context.signal.throwIfAborted();
  const socket = new Socket();
  const leftMs = Math.max(1, context.deadline.getTime() - Date.now());
  const client = new pg.Client({
    connectionString: context.secret("POSTGRES_INSERT_URL"),
    application_name: "pg-effects postgres_insert",
    connectionTimeoutMillis: leftMs,
    stream: () => socket,
  });
  const place = `${client.host}:${client.port}/${client.database}`;
  const account = `${client.user}@${place}`;
  if (effect && effect.account !== account) {
    throw new LedgerError("account_differs", "POSTGRES_INSERT_URL names another account than the effect was bound to");
  }
  const warnings: string[] = [];
  client.on("notice", (notice) => notice.severity === "WARNING" && warnings.push(notice.code ?? ""));
  // Without a listener a lost connection would end the process; the query under way rejects with the same error.
  client.on("error", () => undefined);
  const destroy = (): void => void socket.destroy();
  context.signal.addEventListener("abort", destroy, { once: true });
  const session: Session = {
    client,
    place,
    account,
    begin: async () => {
      await client.query("begin isolation level read committed read write");
      // A commit that a crash of the recipient can take back is no acceptance.
      await client.query(
        `select set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true),
           set_config('synchronous_commit', case current_setting('synchronous_commit') when 'off' then 'on'
             else current_setting('synchronous_commit') end, true)`,
        [`${Math.max(1, context.deadline.getTime() - Date.now())}ms`],
      );
    },
    mark: async ({ key, payload }, kind) => {
      const { rows } = await client.query<{ xid: string }>(
        `insert into public.pg_effects_mark (key, kind, table_name, row_digest) values ($1, $2, $3, $4)
           on conflict (key) do nothing returning xid::text`,
        [key, kind, payload.table, digest(payload)],
      );
      return rows[0]?.xid ?? null;
    },
    commit: async () => {
      warnings.length = 0;
      const { command } = await client.query("commit");
      // A cancelled wait for a standby is a COMMIT with a warning beside it; after a failed statement the tag is ROLLBACK.
      if (command === "COMMIT" && warnings.length === 0) return;
      throw new LedgerError("commit_unconfirmed", `COMMIT answered ${command}, with ${warnings.length} warnings`);
    },
    end: async () => {
      await client.end(); // waits for the server to hang up; the signal ends that wait too
      context.signal.removeEventListener("abort", destroy);
    },
  };
  try {
    await client.connect();
    return session;
  } catch (error) {
    context.signal.removeEventListener("abort", destroy);
    socket.destroy();
    throw error;
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code).slice(0, 40) : "connection_failed";
}
