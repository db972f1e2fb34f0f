/** The project's own files as text, and who imports whom: what the rules of tidy.test.ts are about. Reads only. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";

export const ROOT = join(import.meta.dirname, "..", "..");

/** Made by tools, or not ours. */
const NOT_OURS = new Set(["node_modules", "dist", ".git", ".pg-effects", "package-lock.json"]);
const TEXT = /(\.(ts|js|sql|md|json|jsonc|yml|sh)|\/(run|LICENSE|\.npmrc|\.gitignore|\.gitattributes))$/;

export interface Import {
  /** As it is written. */
  readonly from: string;
  /** The file of ours that is meant, from the root; null for a package. */
  readonly file: string | null;
  readonly typeOnly: boolean;
}
export interface TreeFile {
  /** From the root, with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly imports: readonly Import[];
}

/** Every text file of the project. */
export const FILES: readonly TreeFile[] = read(ROOT);

/** The files whose path the pattern matches; fails where there are none, so that a rule cannot look at nothing. */
export function filesIn(pattern: RegExp): readonly TreeFile[] {
  const files = FILES.filter(({ path }) => pattern.test(path));
  if (files.length === 0) throw new Error(`no file is at ${pattern}: the rule looks at nothing`);
  return files;
}

/** `path:line` of each match, with what matched. */
export function placesOf(files: readonly TreeFile[], pattern: RegExp): readonly string[] {
  return files.flatMap(({ path, text }) =>
    [...text.matchAll(new RegExp(pattern, `${pattern.flags.replace("g", "")}g`))].map(
      (match) => `${path}:${text.slice(0, match.index).split("\n").length}: ${match[0].trim()}`,
    ),
  );
}

function read(folder: string): readonly TreeFile[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (NOT_OURS.has(entry.name)) return [];
    const place = join(folder, entry.name);
    if (entry.isDirectory()) return read(place);
    const path = relative(ROOT, place).replaceAll(sep, "/");
    if (!entry.isFile() || !TEXT.test(`/${path}`)) return [];
    const text = readFileSync(place, "utf8");
    return [{ path, text, imports: path.endsWith(".ts") ? importsOf(path, text) : [] }];
  });
}

/** Static imports and re-exports, at the beginning of a line, and dynamic imports of a literal. */
function importsOf(path: string, text: string): readonly Import[] {
  const found = text.matchAll(/^(?:import|export)\s+(type\s+)?(?:[\w$*{}\s,]+?\sfrom\s+)?"([^"]+)"/gm);
  const dynamic = text.matchAll(/\bimport\(()"([^"]+)"\)/g);
  return [...found, ...dynamic].map(([, type, from = ""]) => ({
    from,
    file: from.startsWith(".") ? join(dirname(path), from).replaceAll(sep, "/") : null,
    typeOnly: Boolean(type),
  }));
}
