/** Where a file that cannot be loaded is broken. Node says it of some faults only; of the others it is looked for here. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { reachedFiles } from "./implementation.ts";

/** A file and a line at the head of a stack, as Node's loader puts it there. */
const HEAD = /^(file:\/\/\S+|\/.+|[A-Z]:\\.+):(\d+)$/;
/** The innermost frame in a file that is no package's. */
const FRAME = /\(?(file:\/\/(?!\S*\/node_modules\/)[^\s)]+?):(\d+):\d+\)?$/m;

/** Checking one file's syntax takes a tenth of a second. */
const CHECK_MS_MAX = 10_000;

/** `path:line`, or null where nobody knows. Never throws. */
export async function placeOfFault(path: string, thrown: unknown): Promise<string | null> {
  try {
    const stack = thrown instanceof Error ? String(thrown.stack) : "";
    const named = placeIn(stack);
    if (named !== null || !(thrown instanceof SyntaxError)) return named;
    // A SyntaxError in a JavaScript module has its place in no property: each file is checked by itself.
    for (const file of await reachedFiles(path)) {
      const place = await placeOfSyntaxFault(file);
      if (place !== null) return place;
    }
    return null;
  } catch {
    return null; // a stack that throws when it is read
  }
}

async function placeOfSyntaxFault(file: string): Promise<string | null> {
  try {
    await promisify(execFile)(process.execPath, ["--check", file], { timeout: CHECK_MS_MAX });
    return null;
  } catch (error) {
    const { stderr } = error as { readonly stderr?: unknown };
    return typeof stderr === "string" ? placeIn(stderr) : null;
  }
}

function placeIn(text: string): string | null {
  const found = HEAD.exec(text.split("\n", 1)[0] ?? "") ?? FRAME.exec(text);
  if (!found) return null;
  const [, file = "", line] = found;
  return `${file.startsWith("file:") ? fileURLToPath(file) : file}:${line}`;
}
