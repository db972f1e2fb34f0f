/**
 * What a command prints. Results go to stdout, as lines for people or with --json as one document (or one line an event);
 * everything else goes to stderr. Nothing here knows what the results mean.
 */
import { cleanText } from "../core/text.ts";
import { strikeOutPasswords } from "./passwords.ts";

/** JSON as it leaves the process: amounts and counts as decimal strings, times as ISO 8601 in UTC. */
export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(
    value,
    (_key, field: unknown) => (typeof field === "bigint" ? field.toString() : field),
    indent,
  );
}

export class Output {
  readonly json: boolean;
  #progress = false;

  constructor(json: boolean) {
    this.json = json;
  }

  /** One line of the result, for people. Nothing with --json. */
  line(text = ""): void {
    if (this.json) return;
    this.endProgress();
    process.stdout.write(`${text}\n`);
  }

  /** A whole screen, which the next one replaces; where there is no terminal, one after the other. */
  screen(lines: readonly string[]): void {
    if (this.json) return;
    process.stdout.write(`${process.stdout.isTTY ? "\u001b[H\u001b[2J" : ""}${lines.join("\n")}\n`);
    if (!process.stdout.isTTY) process.stdout.write("\n");
  }

  /** The result, once. Only with --json. */
  document(value: unknown): void {
    if (this.json) process.stdout.write(`${toJson(value, 2)}\n`);
  }

  /** One event of a stream, as one line. Only with --json. */
  event(value: unknown): void {
    if (this.json) process.stdout.write(`${toJson(value)}\n`);
  }

  /** Something said beside the result, on stderr: one line, inert, without passwords. */
  note(text: string): void {
    this.endProgress();
    process.stderr.write(`${strikeOutPasswords(cleanText(text))}\n`);
  }

  /** A line on stderr that rewrites itself on a terminal. Elsewhere nothing: a log has no use for it. */
  progress(text: string): void {
    if (this.json || !process.stderr.isTTY) return;
    this.#progress = true;
    process.stderr.write(`\r\u001b[K${cleanText(text).slice(0, (process.stderr.columns ?? 80) - 1)}`);
  }

  endProgress(): void {
    if (!this.#progress) return;
    this.#progress = false;
    process.stderr.write("\r\u001b[K");
  }
}
