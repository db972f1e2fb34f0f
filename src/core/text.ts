/**
 * Diagnostic text is cleaned and bounded before it goes anywhere (protocol, section 6): it may come from a recipient, and
 * U+0000 or half a surrogate pair would make the very write fail that records it.
 */

/** What is kept of a message, in characters. */
export const TEXT_MAX = 2_000;

/** What is looked at of a message before it is cleaned: a huge one costs no more than this. */
const LOOKED_AT_MAX = 100_000;

/** A string that Postgres stores and a terminal shows: well-formed, without control and bidirectional characters. */
export function cleanText(text: string, max: number = TEXT_MAX): string {
  const bounded = text.length > max ? `${text.slice(0, max)}… (${text.length} characters)` : text;
  return bounded
    .toWellFormed()
    .replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu, (character) =>
      character === "\n" || character === "\t" ? " " : "\ufffd",
    );
}

/**
 * Says what was thrown, whatever it was: an Error whose getters throw, undefined, a Proxy, a cycle. Never throws.
 * `strikeOut` sees the words before they are cleaned and cut, so that no part of a secret is left.
 */
export function describeThrown(thrown: unknown, strikeOut: (text: string) => string = (text) => text): string {
  return cleanText(strikeOut(wordsOf(thrown).slice(0, LOOKED_AT_MAX)));
}

function wordsOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error) {
      const code = (thrown as { code?: unknown }).code;
      return `${typeof code === "string" ? `${thrown.name} ${code}` : thrown.name}: ${thrown.message}`;
    }
    if (thrown === "") return "an empty string was thrown";
    return typeof thrown === "string" ? thrown : `thrown: ${String(thrown)}`;
  } catch {
    return "something was thrown that cannot be read";
  }
}
