/**
 * Diagnostic text is cleaned and bounded before it goes anywhere (protocol, section 6): it may come from a recipient, and
 * U+0000 or half a surrogate pair would make the very write fail that records it.
 */

/** What is kept of a message, in characters. */
export const TEXT_MAX = 2_000;

/** A string that Postgres stores and a terminal shows: well-formed, without control and bidirectional characters. */
export function cleanText(text: string, max: number = TEXT_MAX): string {
  const bounded = text.length > max ? `${text.slice(0, max)}… (${text.length} characters)` : text;
  return bounded
    .toWellFormed()
    .replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, (character) =>
      character === "\n" || character === "\t" ? " " : "\ufffd",
    );
}

/** Says what was thrown, whatever it was: an Error whose getters throw, undefined, a Proxy, a cycle. Never throws. */
export function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error) {
      const code = (thrown as { code?: unknown }).code;
      const name = typeof code === "string" ? `${thrown.name} ${code}` : thrown.name;
      return cleanText(`${name}: ${thrown.message}`);
    }
    if (typeof thrown === "string") return cleanText(thrown);
    return cleanText(`thrown: ${String(thrown)}`);
  } catch {
    return "something was thrown that cannot be read";
  }
}
