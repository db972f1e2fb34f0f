/**
 * The import of one task file: within a bound, and worded where it fails. Everything that such a file throws may hold a
 * secret of its environment, so nothing of it is passed on before these are struck out.
 */
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { LedgerError } from "../core/error.ts";
import { type SecretSource, Secrets } from "../core/secret.ts";
import { cleanText, describeThrown } from "../core/text.ts";
import type { LogLine } from "../store/queue.ts";
import { placeOfFault } from "./fault-place.ts";
import { reachedFiles } from "./implementation.ts";
import { TASK_SOURCE } from "./task-names.ts";

export interface ImportBounds {
  readonly log: LogLine;
  /** Names to values: what an operation could read of its environment. */
  readonly secrets: SecretSource;
  /** After so long it is said which file keeps the worker from starting. */
  readonly slowMs?: number;
  /** And after so long it has failed. */
  readonly timeoutMs?: number;
}

/** Connecting or reading a large model at import takes seconds; who waits longer wants to know for what. */
const SLOW_MS = 10_000;

/** A top-level await that takes longer is taken for one that never settles: supervisors restart what ends, not what hangs. */
const IMPORT_MS_MAX = 60_000;

/** Imports it, for whoever imports it next. @throws LedgerError `task_file_broken` without any secret. */
export async function importTaskFile(path: string, bounds: ImportBounds): Promise<void> {
  const timeoutMs = bounds.timeoutMs ?? IMPORT_MS_MAX;
  const slowMs = bounds.slowMs ?? SLOW_MS;
  const slow = setTimeout(() => {
    bounds.log("warning", `${path} has been loading for ${slowMs} ms, and the worker waits for it: a top-level await?`);
  }, slowMs);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(resolve, timeoutMs, "late");
  });
  let end: "late" | { readonly thrown: unknown } | null;
  try {
    const loaded = import(pathToFileURL(path).href).then(
      () => null,
      (thrown: unknown) => ({ thrown }), // whatever it is: undefined too
    );
    end = await Promise.race([loaded, late]);
  } finally {
    clearTimeout(slow);
    clearTimeout(timer);
  }
  if (end === null) return;
  if (end === "late") {
    throw new LedgerError("task_file_broken", `${path} did not finish loading within ${timeoutMs} ms`, {
      hint: "look for a top-level await that does not settle: an operation connects when it is dispatched",
    });
  }
  throw await wordFault(path, end.thrown, bounds.secrets);
}

async function wordFault(path: string, thrown: unknown, source: SecretSource): Promise<LedgerError> {
  const secrets = new Secrets(await suspectNames(path, source), source);
  const strikeOut = (text: string) => secrets.strikeOut(text);
  const place = await placeOfFault(path, thrown);
  const message = `${place ?? path} cannot be loaded: ${describeThrown(thrown, strikeOut)}`;
  // The fault itself would bring its message along: what --debug shows is a copy.
  const cause = new Error("the task file's own fault");
  cause.stack = cleanStack(thrown, strikeOut);
  return new LedgerError("task_file_broken", message, { hint: hintFor(thrown), cause });
}

/** What looks like a secret by its name, and is struck out wherever it comes from. */
const SECRET_NAME = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|_URL$|_DSN$/i;

/** Variables that a broken file could have read: those that it, what it imports, and its neighbours name, and likely ones. */
async function suspectNames(path: string, source: SecretSource): Promise<readonly string[]> {
  const folder = dirname(path);
  const neighbours = (await readdir(folder)).filter((entry) => TASK_SOURCE.test(entry));
  const files = new Set([...(await reachedFiles(path)), ...neighbours.map((entry) => join(folder, entry))]);
  const words = new Set<string>();
  for (const file of files) {
    const text = await readFile(file, "utf8").catch(() => ""); // one that cannot be read names nothing
    for (const word of text.match(/\w+/g) ?? []) words.add(word);
  }
  return Object.keys(source).filter((name) => words.has(name) || SECRET_NAME.test(name));
}

function cleanStack(thrown: unknown, strikeOut: (text: string) => string): string {
  try {
    const stack = thrown instanceof Error ? thrown.stack : undefined;
    if (typeof stack !== "string") return "";
    return strikeOut(stack)
      .split("\n")
      .slice(0, 30)
      .map((line) => cleanText(line, 300))
      .join("\n");
  } catch {
    return ""; // a stack that cannot be read
  }
}

const MEND = "mend that file: a worker starts with all of its operations or not at all";

/** Which file is to be mended, or what is to be installed, by the loader's code. */
function hintFor(thrown: unknown): string {
  try {
    const { code, url } = (thrown ?? {}) as { readonly code?: unknown; readonly url?: unknown };
    if (code !== "ERR_MODULE_NOT_FOUND" && code !== "MODULE_NOT_FOUND") return MEND;
    if (typeof url !== "string") {
      return "install that package in the project of this file: `npm install pg-effects`, or the folder of its checkout";
    }
    return url.includes("/node_modules/")
      ? "that package is incomplete: install it again, or build it (`npm run build` in its checkout)"
      : "correct the import: there is no such file";
  } catch {
    return MEND;
  }
}
