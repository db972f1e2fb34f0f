/**
 * The server's process: launch, readiness, end. The postmaster is our direct child, so that its exit is known and a
 * signal can only reach it; it has a session of its own, so that Ctrl-C ends the program first and the database after.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { LedgerError } from "../core/error.ts";
import type { ClusterFolder } from "./cluster.ts";
import { nullIf, statIfThere } from "./files.ts";
import { portIsFree } from "./port.ts";
import { runAs, serverEnvironment } from "./server-user.ts";
import type { Watcher } from "./watcher.ts";

/** How often a lost port is replaced. Each loss is a race against another program; five in a row are no accident. */
const PORTS_MAX = 5;

/** For how long a folder that another postmaster left, or is leaving, is tried again: its last processes end within it. */
const LOCKED_MS_MAX = 10_000;

/** Signals of `pg_ctl stop`: fast, immediate; and what no process refuses. Milliseconds to wait after each. */
const STOPPING = [
  ["SIGINT", 20_000],
  ["SIGQUIT", 6_000],
  ["SIGKILL", 5_000],
] as const;

const POLL_MS = 20;

export interface ServerProcess {
  readonly port: number;
  readonly processId: number;
  /** How it ended, in words, whoever ended it: `by SIGKILL`, `with exit code 1`. */
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

export interface Launch {
  readonly postgres: string;
  readonly folder: ClusterFolder;
  readonly watcher: Watcher;
  /** A port to use or fail, or a function that is asked again when its port was lost to another program. */
  readonly port: number | (() => Promise<number>);
  /** By `performance.now()`. */
  readonly deadline: number;
}

/**
 * Starts the server and waits until it accepts connections.
 * @throws LedgerError `postgres_start_failed` with the last lines of its log.
 */
export async function launchServer(launch: Launch): Promise<ServerProcess> {
  const lockFile = join(launch.folder.dataDirectory, "postmaster.pid");
  const lockedUntil = Math.min(launch.deadline, performance.now() + LOCKED_MS_MAX);
  for (let ports = 1; ; ) {
    const locked = (await statIfThere(lockFile)) !== null;
    const port = typeof launch.port === "number" ? launch.port : await launch.port();
    const server = await spawnPostmaster(launch, port);
    const processId = server.pid;
    const ended = endOf(server);
    if (processId !== undefined && (await becomesReady(server, lockFile, launch.deadline))) {
      return { port, processId, ended, stop: () => endProcess(server) };
    }
    const inTime = performance.now() < launch.deadline;
    await endProcess(server);
    if (locked && performance.now() < lockedUntil) await delay(10 * POLL_MS);
    else if (inTime && typeof launch.port === "function" && ports < PORTS_MAX && !(await portIsFree(port))) ports += 1;
    else throw await startFailed(launch, port, inTime ? "ended at once" : "was not ready in time");
  }
}

async function spawnPostmaster({ postgres, folder, watcher }: Launch, port: number): Promise<ChildProcess> {
  const log = await open(folder.logFile, "w", 0o600);
  try {
    // On the command line, because nothing in the folder may change them; all else stands in the settings file.
    const fixed = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="];
    const server = spawn(postgres, ["-D", folder.dataDirectory, "-p", String(port), ...fixed], {
      cwd: "/",
      detached: true,
      env: serverEnvironment(),
      // A file and not a pipe: the server must be able to write when we are gone.
      stdio: ["ignore", log.fd, log.fd],
      ...runAs(folder.owner),
    });
    watcher.guard(server);
    // A running server alone does not keep this process alive; the watcher ends it then.
    server.unref();
    // A failed spawn shows as a child without process id.
    server.once("error", () => {});
    return server;
  } finally {
    await log.close();
  }
}

/** As pg_ctl does it: the eighth line of the lock file, if its first names this very process. */
async function becomesReady(server: ChildProcess, lockFile: string, deadline: number): Promise<boolean> {
  while (isRunning(server) && performance.now() < deadline) {
    const lines = (await nullIf(["ENOENT"], readFile(lockFile, "utf8")))?.split("\n") ?? [];
    if (lines[0]?.trim() === String(server.pid) && lines[7]?.trim() === "ready") return true;
    await delay(POLL_MS);
  }
  return false;
}

async function endProcess(server: ChildProcess): Promise<void> {
  for (const [signal, waitMs] of STOPPING) {
    const until = performance.now() + waitMs;
    if (isRunning(server)) server.kill(signal);
    while (isRunning(server) && performance.now() < until) await delay(POLL_MS);
  }
  if (isRunning(server)) throw new Error(`process ${server.pid} did not end by SIGKILL`);
}

function endOf(server: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    server.once("exit", (code, signal) => resolve(signal === null ? `with exit code ${code}` : `by ${signal}`));
  });
}

function isRunning(server: ChildProcess): boolean {
  return server.pid !== undefined && server.exitCode === null && server.signalCode === null;
}

async function startFailed({ folder }: Launch, port: number, what: string): Promise<LedgerError> {
  const log = (await readFile(folder.logFile, "utf8")).trimEnd().split("\n").slice(-12).join("\n");
  return new LedgerError(
    "postgres_start_failed",
    `Postgres in ${folder.dataDirectory}, port ${port}, ${what}:\n${log}`,
    {
      hint: "its log names the cause: a port or folder in use, a setting it does not know, no space left",
    },
  );
}
