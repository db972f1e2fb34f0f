/**
 * Under which user the embedded server runs. Postgres refuses to run as root, so a process of root lends its server to an
 * unprivileged user that the machine already has. Must never create a user: that changes a machine we were only asked
 * to run on.
 */
import { readFile } from "node:fs/promises";
import { LedgerError } from "../core/error.ts";
import { statIfThere } from "./files.ts";

export interface ServerUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Preferred first: `postgres` is there where Debian's server is, `nobody` nearly everywhere. */
const CANDIDATES = ["postgres", "nobody"];

/**
 * The user for the server, or null where this process's own user will do. A folder that already holds a cluster keeps
 * its owner, since Postgres starts only as the owner of its files.
 * @throws LedgerError `postgres_start_failed` as root without any unprivileged user.
 */
export async function serverUser(dataDirectory: string | undefined): Promise<ServerUser | null> {
  if (process.getuid?.() !== 0) return null;
  const cluster = dataDirectory === undefined ? null : await statIfThere(dataDirectory);
  if (cluster && cluster.uid !== 0) return { name: `uid ${cluster.uid}`, uid: cluster.uid, gid: cluster.gid };
  const users = (await readFile("/etc/passwd", "utf8")).split("\n").map((line) => line.split(":"));
  for (const name of CANDIDATES) {
    const [, , uid, gid] = users.find(([candidate]) => candidate === name) ?? [];
    // >>> 0: macOS writes nobody as -2, the system calls want the same bits without the sign.
    if (uid !== undefined && gid !== undefined) return { name, uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 };
  }
  throw new LedgerError("postgres_start_failed", "Postgres does not run as root, and this machine has no other user", {
    hint: `run as an ordinary user, or have one of the users ${CANDIDATES.join(", ")}`,
  });
}

/** The part of spawn's options that runs a child under that user; Node drops root's other groups with it. */
export function runAs(user: ServerUser | null): { uid?: number; gid?: number } {
  return user ? { uid: user.uid, gid: user.gid } : {};
}

/** The environment of the server and its tools: nothing of ours, so that no PG* variable and no secret reaches them. */
export function serverEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, LC_ALL: "C", TZ: "UTC" };
}
