/**
 * A key that stands twice in one JSON object. JSON.parse takes the last one without a word; whoever reviewed the file may
 * have read the first.
 */

/** A string of JSON, or one character that has a meaning here. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;

interface Level {
  /** Null in an array. */
  readonly keys: Set<string> | null;
  /** Where it stands, as a path. */
  readonly path: string;
  index: number;
  key: string;
}

/** The path of the first repeated key in a text that JSON.parse reads; null where there is none. */
export function repeatedKey(text: string): string | null {
  const levels: Level[] = [];
  let last = "";
  for (const [token] of text.matchAll(TOKEN)) {
    const level = levels.at(-1);
    if (token === "{" || token === "[") {
      levels.push({ keys: token === "{" ? new Set() : null, path: level ? within(level) : "", index: 0, key: "" });
    } else if (token === "}" || token === "]") {
      levels.pop();
    } else if (token === "," && level) {
      level.index += 1;
    } else if (token === ":" && level?.keys) {
      level.key = JSON.parse(last) as string;
      if (level.keys.has(level.key)) return within(level);
      level.keys.add(level.key);
    }
    last = token;
  }
  return null;
}

function within({ keys, path, index, key }: Level): string {
  if (keys === null) return `${path}[${index}]`;
  return path === "" ? key : `${path}.${key}`;
}
