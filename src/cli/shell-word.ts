/** A name inside a command that is shown to be typed: quoted where a shell would read it otherwise. */
import { cleanText } from "../core/text.ts";

export function shellWord(name: string): string {
  const word = cleanText(name);
  if (/^[\w./:@%+,][\w./:@%+,-]*$/.test(word)) return word;
  return `'${word.replaceAll("'", "'\\''")}'`;
}
