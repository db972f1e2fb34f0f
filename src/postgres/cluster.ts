/**
 * The folder of an embedded server: where it lies, what stands beside it, and its first initialisation. Must never
 * initialise over a cluster, and never show a half-made one: initdb works beside the folder and is renamed into place.
 */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFile, chown, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { LedgerError } from "../core/error.ts";
import type { Binaries } from "./binaries.ts";
import { nullIf, statIfThere } from "./files.ts";
import { runAs, type ServerUser, serverEnvironment } from "./server-user.ts";
import type { Watcher } from "./watcher.ts";

/** The superuser that initdb makes. */
export const SUPERUSER = "postgres";

/** Read by the server after its own postgresql.conf, and before what `alter system` wrote, which therefore wins. */
const SETTINGS_FILE = "pg-effects.conf";

export interface ClusterFolder {
  readonly dataDirectory: string;
  readonly passwordFile: string;
  readonly logFile: string;
  /** Where initdb works. */
  readonly unfinished: string;
  /** What goes when the server has been stopped. */
  readonly temporary: readonly string[];
  readonly owner: ServerUser | null;
}

/**
 * The given folder, or a fresh one.
 * @throws LedgerError `postgres_start_failed` for a folder with something in it that would not outlive the server.
 */
export async function openFolder(
  given: string | undefined,
  persistent: boolean,
  owner: ServerUser | null,
): Promise<ClusterFolder> {
  if (given !== undefined) {
    const dataDirectory = resolve(given);
    if (!persistent && (await statIfThere(dataDirectory))) {
      throw new LedgerError("postgres_start_failed", `${dataDirectory} is there and would be removed with the server`, {
        hint: "give a folder that does not exist yet, or leave `persistent: false` out",
      });
    }
    await mkdir(dirname(dataDirectory), { recursive: true });
    const paths = pathsOf(dataDirectory);
    return { ...paths, owner, temporary: persistent ? [] : [dataDirectory, paths.passwordFile, paths.logFile] };
  }
  // mkdtemp makes it 0700, and the password and log in it are nobody else's.
  const around = await mkdtemp(join(tmpdir(), "pg-effects-"));
  if (owner) await chown(around, owner.uid, owner.gid);
  return { ...pathsOf(join(around, "data")), owner, temporary: persistent ? [] : [around] };
}

function pathsOf(dataDirectory: string) {
  return {
    dataDirectory,
    passwordFile: `${dataDirectory}.password`,
    logFile: `${dataDirectory}.log`,
    unfinished: `${dataDirectory}.unfinished`,
  };
}

/**
 * Initialises the cluster where there is none yet.
 * @returns the superuser's password.
 * @throws LedgerError `postgres_start_failed`
 */
export async function openCluster(
  folder: ClusterFolder,
  binaries: Binaries,
  watcher: Watcher,
  timeoutMs: number,
): Promise<string> {
  if (!(await statIfThere(join(folder.dataDirectory, "PG_VERSION")))) {
    return initialise(folder, binaries, watcher, timeoutMs);
  }
  const password = await nullIf(["ENOENT"], readFile(folder.passwordFile, "utf8"));
  if (password !== null) return password.trim();
  throw new LedgerError("postgres_start_failed", `${folder.dataDirectory} holds a cluster without its password file`, {
    hint: `put the password of its user ${SUPERUSER} into ${folder.passwordFile}, or give another folder`,
  });
}

async function initialise(
  { dataDirectory, passwordFile, unfinished, owner }: ClusterFolder,
  binaries: Binaries,
  watcher: Watcher,
  timeoutMs: number,
): Promise<string> {
  // Made here and not by initdb: it fails if another start is at work in the same place.
  if (
    !(await nullIf(
      ["EEXIST"],
      mkdir(unfinished, { mode: 0o700 }).then(() => true),
    ))
  ) {
    throw new LedgerError("postgres_start_failed", `${unfinished} is there: another start is making this cluster`, {
      hint: "wait for it; if there is none, remove that folder",
    });
  }
  try {
    const password = randomBytes(24).toString("base64url");
    await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
    for (const path of owner ? [unfinished, passwordFile] : []) await chown(path, owner?.uid ?? 0, owner?.gid ?? 0);
    await runInitdb(binaries.initdb, unfinished, passwordFile, owner, watcher, timeoutMs);
    await appendFile(join(unfinished, "postgresql.conf"), `\ninclude_if_exists = '${SETTINGS_FILE}'\n`);
    await rename(unfinished, dataDirectory);
    return password;
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    throw error;
  }
}

async function runInitdb(
  initdb: string,
  directory: string,
  passwordFile: string,
  owner: ServerUser | null,
  watcher: Watcher,
  timeoutMs: number,
): Promise<void> {
  // Postgres's own C.UTF-8 sorts the same on every machine, which libc's locales do not.
  const locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"];
  const login = [`--username=${SUPERUSER}`, `--pwfile=${passwordFile}`, "--auth=scram-sha-256"];
  const options = { cwd: "/", env: serverEnvironment(), timeout: Math.max(1, Math.ceil(timeoutMs)), ...runAs(owner) };
  const running = promisify(execFile)(
    initdb,
    [`--pgdata=${directory}`, ...login, ...locale, "--no-instructions"],
    options,
  );
  watcher.guard(running.child);
  try {
    await running;
  } catch (cause) {
    const said = cause instanceof Error && "stderr" in cause ? String(cause.stderr).trim() : String(cause);
    throw new LedgerError("postgres_start_failed", `initdb made no cluster in ${directory}:\n${said}`, {
      hint: owner
        ? `the user ${owner.name}, who runs the server for root, must be able to reach and write that folder`
        : "the folder must be writable and have some 100 MB left",
      cause,
    });
  }
}

/** Writes the settings for the next start; those of an earlier one are gone. */
export async function writeSettings(
  { dataDirectory, owner }: ClusterFolder,
  settings: Readonly<Record<string, string | number | boolean>>,
): Promise<void> {
  const quoted = (value: string | number | boolean) => `'${String(value).replace(/['\\]/g, "$&$&")}'`;
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${quoted(value)}\n`);
  const path = join(dataDirectory, SETTINGS_FILE);
  await writeFile(path, lines.join(""), { mode: 0o600 });
  if (owner) await chown(path, owner.uid, owner.gid);
}
