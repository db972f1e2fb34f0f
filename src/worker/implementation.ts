/**
 * What identifies the code that runs an operation: SHA-256 over its file, the project files that it imports and the lock
 * file. It does not depend on where the checkout lies.
 */
import { execFile } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { canonicalText } from "../core/canonical.ts";
import { sha256 } from "../core/digest.ts";
import type { AnyOperation } from "../core/operation.ts";

const LOCK_FILES = ["package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock"];

/** Relative imports in source text. One in a comment counts too: a file too many is harmless, one too few is not. */
const RELATIVE_IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*["'](\.{1,2}\/[^"']+)["']/g;

/** The digest of an operation's file and everything in the project that it reaches by relative imports. */
export async function implementationOfFile(file: string): Promise<string> {
  const root = projectRoot(dirname(resolve(file)));
  const files = await readReached(file);
  const lockFile = LOCK_FILES.map((name) => join(root, name)).find((path) => existsSync(path));
  if (lockFile) files.set(lockFile, await readFile(lockFile));
  const listing = [...files]
    .map(([path, content]) => `${relative(root, path)} ${sha256(content).toString("hex")}`)
    .sort()
    .join("\n");
  return sha256("pg-effects/implementation/1\n", listing).toString("hex");
}

/** The file and every one that it reaches by relative imports, itself first. */
export async function reachedFiles(file: string): Promise<readonly string[]> {
  return [...(await readReached(file)).keys()];
}

async function readReached(file: string): Promise<Map<string, Buffer>> {
  const files = new Map<string, Buffer>();
  const pending = [resolve(file)];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    if (files.has(path)) continue;
    const content = await readFile(path);
    files.set(path, content);
    for (const [, specifier] of content.toString("utf8").matchAll(RELATIVE_IMPORT)) {
      const imported = resolve(dirname(path), specifier as string);
      if (statSync(imported, { throwIfNoEntry: false })?.isFile()) pending.push(imported);
    }
  }
  return files;
}

/** For an operation that was handed over in the process, without a file: the source text of its functions. Weaker. */
export function implementationOfSource(operation: AnyOperation): string {
  const { definition, contract } = operation;
  const functions = [
    definition.prepare,
    definition.dispatch,
    definition.reconcile,
    definition.fence,
    definition.resubmit,
  ];
  const listing = [definition.name, definition.version, canonicalText(contract), ...functions.map(String)].join("\n");
  return sha256("pg-effects/implementation/1\n", listing).toString("hex");
}

/** The application's own name for what is deployed: PG_EFFECTS_RELEASE, else git's commit, else the package's version. */
export async function releaseOf(folder: string, environment: NodeJS.ProcessEnv): Promise<string> {
  if (environment.PG_EFFECTS_RELEASE) return environment.PG_EFFECTS_RELEASE;
  const root = projectRoot(resolve(folder));
  try {
    const { stdout } = await promisify(execFile)("git", ["-C", root, "rev-parse", "--short=12", "HEAD"]);
    return stdout.trim();
  } catch {
    return packageVersion(root); // no git, or no repository: an installed package
  }
}

async function packageVersion(root: string): Promise<string> {
  const path = join(root, "package.json");
  if (!existsSync(path)) return "unknown";
  const { version } = JSON.parse(await readFile(path, "utf8")) as { version?: string };
  return version ?? "unknown";
}

/** The nearest folder upwards that holds a package.json; else the folder itself. */
function projectRoot(folder: string): string {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(join(at, "package.json"))) return at;
    if (dirname(at) === at) return folder;
  }
}
