/**
 * Connections: the one place that makes pools and clients, and that words what can go wrong with them. No decisions.
 * `int8` comes out as bigint here and nowhere else globally, so an application's own driver keeps its settings.
 */
import pg from "pg";
import { LedgerError } from "../core/error.ts";
import { connectionWords } from "./connection-words.ts";

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

/**
 * One connection of its own, for what must not share a pool. `driverTypes`: as an application's own would be, for its own
 * statements. @throws LedgerError as `wordConnectionError` says.
 */
export async function openClient(
  connectionString: string,
  applicationName: string,
  { driverTypes = false }: { readonly driverTypes?: boolean } = {},
): Promise<pg.Client> {
  const config = {
    ...connectionConfig(connectionString),
    application_name: applicationName,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    ...(driverTypes ? {} : { types, pipeline: true }),
  };
  const client = new pg.Client(config as pg.ClientConfig);
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
    throw connectionStringInvalid("the connection string is not a postgres:// address");
  }
  try {
    // Parsed here, and not at the first connection of a pool. The parser's error has the whole string, password and all.
    void new pg.Client({ connectionString });
  } catch (error) {
    if (driverCode(error) === "ERR_INVALID_URL") throw connectionStringInvalid("the connection string is no address");
    // A file that it names, of a certificate or a key.
    throw new LedgerError("connection_string_invalid", `the connection string: ${messageOf(error)}`, {
      hint: "correct the path of that file, or let this process read it",
    });
  }
  return { connectionString };
}

function connectionStringInvalid(message: string): LedgerError {
  return new LedgerError("connection_string_invalid", message, {
    hint: "give --database or DATABASE_URL as postgres://user:password@host:port/database, special characters %-escaped",
  });
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

/** Postgres says what was denied and not what to do. */
const ROLE_MISSING = "this login lacks the ledger's role for it: docs/roles.md says which role may do what";

/**
 * Words an error of the driver: a code of ours and what to do. Errors that are ours already, and those of class PE,
 * pass. The connection string is never part of it.
 */
export function wordConnectionError(error: unknown): unknown {
  if (error instanceof LedgerError) return error;
  const code = driverCode(error);
  const words = connectionWords(code, messageOf(error));
  if (words) {
    const message = code === undefined ? messageOf(error) : `${messageOf(error)} (${code})`;
    return new LedgerError(words[0], message, { hint: words[1], cause: error });
  }
  if (code?.startsWith("PE") || code === "0A000" || code === "42501" || code === "22023" || code === "55000") {
    const hint = (error as { hint?: string }).hint ?? (code === "42501" ? ROLE_MISSING : "");
    const ordinal = ordinalOf(error);
    return new LedgerError(code, messageOf(error), {
      hint,
      ...(ordinal === undefined ? {} : { ordinal }),
      cause: error,
    });
  }
  return error;
}

/** Which of many requests a refusal is about: effects.enqueue_many says it in the error's detail. */
function ordinalOf(error: unknown): number | undefined {
  const found = /^\{"ordinal" : (\d+)\}$/.exec((error as { detail?: string }).detail ?? "");
  return found ? Number(found[1]) : undefined;
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
