/**
 * Connections: the one place that makes pools and clients, and that words what can go wrong with them. No decisions.
 * `int8` comes out as bigint here and nowhere else globally, so an application's own driver keeps its settings.
 */
import pg from "pg";
import { LedgerError } from "../core/error.ts";

/** The oldest server that is tested. */
const SERVER_VERSION_MIN = 150_000;

const INT8 = 20;
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: "text" | "binary") =>
    oid === INT8 && format !== "binary"
      ? BigInt
      : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
};

export interface PoolOptions {
  readonly connectionString: string;
  /** Shown in pg_stat_activity. */
  readonly applicationName: string;
  readonly max: number;
  /** Statements are sent without waiting for the one before: for transactions of ours only. */
  readonly pipeline?: boolean;
  /** Ends a connection that gives no answer for so long. The server's own timeouts come first. */
  readonly queryTimeoutMs?: number;
  /** For graphile-worker's own use: `int8` as the driver gives it, because it writes job ids as JSON. */
  readonly driverTypes?: boolean;
}

/** A pool whose idle connections may die without ending the process: the next query reports it. */
export function openPool(options: PoolOptions): pg.Pool {
  const config = {
    ...connectionConfig(options.connectionString),
    application_name: options.applicationName,
    max: options.max,
    ...(options.driverTypes ? {} : { types }),
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    ...(options.pipeline ? { pipeline: true } : {}),
    ...(options.queryTimeoutMs ? { query_timeout: options.queryTimeoutMs } : {}),
  };
  const pool = new pg.Pool(config as pg.PoolConfig);
  pool.on("error", () => {
    // An idle connection ended. The pool has removed it already; whoever needs one gets a new one, or the error.
  });
  pool.on("connect", (client) => {
    client.on("error", () => {}); // the query that runs on it rejects; graphile-worker wants this listener too
  });
  return pool;
}

/** One connection of its own, for what must not share a pool. @throws LedgerError as `wordConnectionError` says. */
export async function openClient(connectionString: string, applicationName: string): Promise<pg.Client> {
  const client = new pg.Client({
    ...connectionConfig(connectionString),
    application_name: applicationName,
    types,
    connectionTimeoutMillis: 10_000,
  });
  client.on("error", () => {
    // The connection ended between two queries; the next one rejects and says so.
  });
  try {
    await client.connect();
  } catch (error) {
    throw wordConnectionError(error);
  }
  return client;
}

function connectionConfig(connectionString: string): pg.ClientConfig {
  if (!/^(postgres|postgresql|socket):\/\//.test(connectionString)) {
    throw new LedgerError("connection_string_invalid", "the connection string is not a postgres:// address", {
      hint: "give --database or DATABASE_URL as postgres://user:password@host:port/database",
    });
  }
  return { connectionString };
}

/**
 * Refuses a server that is too old.
 * @throws LedgerError `server_too_old`
 */
export async function checkServer(client: pg.ClientBase | pg.Pool): Promise<void> {
  const { rows } = await client.query<{ number: string; version: string }>(
    "select current_setting('server_version_num') as number, current_setting('server_version') as version",
  );
  const server = rows[0];
  if (!server || Number(server.number) < SERVER_VERSION_MIN) {
    throw new LedgerError("server_too_old", `the server is Postgres ${server?.version ?? "of an unknown version"}`, {
      hint: "pg-effects needs Postgres 15 or newer",
    });
  }
}

const CONNECTION_ERRORS: Readonly<Record<string, readonly [code: string, hint: string]>> = {
  ECONNREFUSED: ["server_unreachable", "nothing listens there: start the server, or correct the address"],
  ENOTFOUND: ["server_unreachable", "the host name is not known: correct the address"],
  ETIMEDOUT: ["server_unreachable", "the server did not answer: correct the address, or look at the network"],
  ECONNRESET: ["server_unreachable", "the connection was cut: try again, and look at the server's log"],
  EHOSTUNREACH: ["server_unreachable", "no way leads to the host: look at the network"],
  "28P01": ["login_refused", "correct the user or password in the connection string"],
  "28000": ["login_refused", "the server does not let this user in: look at pg_hba.conf"],
  "3D000": ["database_missing", "create the database, or correct its name in the connection string"],
  "3F000": ["ledger_missing", "run pg-effects migrate first"],
  "42P01": ["ledger_missing", "run pg-effects migrate first"],
  "42883": ["ledger_missing", "run pg-effects migrate first"],
  "53300": ["connections_exhausted", "the server has no connection left: lower the pools or raise max_connections"],
  "57P03": ["server_unreachable", "the server is starting up or shutting down: try again"],
};

/**
 * Words an error of the driver: a code of ours and what to do. Errors that are ours already, and those of class PE,
 * pass. The connection string is never part of it.
 */
export function wordConnectionError(error: unknown): unknown {
  if (error instanceof LedgerError) return error;
  const code = driverCode(error);
  const words = code === undefined ? undefined : CONNECTION_ERRORS[code];
  if (words) {
    return new LedgerError(words[0], `${messageOf(error)} (${code})`, { hint: words[1], cause: error });
  }
  if (code?.startsWith("PE") || code === "0A000" || code === "42501" || code === "22023" || code === "55000") {
    return new LedgerError(code, messageOf(error), { hint: (error as { hint?: string }).hint ?? "", cause: error });
  }
  if (/timeout expired|timeout exceeded when trying to connect/.test(messageOf(error))) {
    return new LedgerError("server_unreachable", messageOf(error), {
      hint: "the server did not answer within 10 s",
      cause: error,
    });
  }
  return error;
}

/** The SQLSTATE or system error code of a driver's error; looks into an AggregateError of several addresses. */
export function driverCode(error: unknown): string | undefined {
  if (error instanceof AggregateError) return driverCode(error.errors[0]) ?? (error as { code?: string }).code;
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
}

function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === "") return messageOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
