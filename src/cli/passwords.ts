/**
 * Keeps passwords of connection strings out of what is printed: in errors and logs, whoever wrote them. A mistyped option
 * is repeated by the parser of the command line with its value, so text is struck out by its form, not by where it is from.
 */

/** Up to the last @ of the word, because a password may hold one unencoded. */
const IN_ADDRESS = /(\/\/[^\s:@/]*:)\S*@/g;
const IN_PARAMETER = /\b((?:ssl)?password=)[^\s&'"]+/gi;

/** The text with `[password]` in place of what stands where passwords stand. */
export function strikeOutPasswords(text: string): string {
  return text.replace(IN_ADDRESS, "$1[password]@").replace(IN_PARAMETER, "$1[password]");
}
