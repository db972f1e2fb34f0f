/**
 * CSV as people and banks write it (RFC 4180): quotes, line ends inside them, `,` or `;` or a tab between cells. What is
 * broken is refused with its line, and never guessed.
 */
import { LedgerError } from "../core/error.ts";

export interface CsvRecord {
  /** Where it begins, from 1. */
  readonly line: number;
  readonly cells: readonly string[];
}

const SEPARATORS = [",", ";", "\t"] as const;

/** The records of a text, blank lines left out. @throws LedgerError `list_invalid` */
export function parseCsv(text: string): readonly CsvRecord[] {
  const separator = separatorOf(text);
  const records: CsvRecord[] = [];
  let place = 0;
  let line = 1;
  while (place < text.length) {
    const begins = line;
    const cells: string[] = [];
    for (;;) {
      const cell = text[place] === '"' ? quotedCell(text, place, begins) : plainCell(text, place, separator);
      line += cell.lines;
      place = cell.end;
      cells.push(cell.value);
      if (text[place] !== separator) break;
      place += 1;
    }
    const end = lineEnd(text, place);
    if (end === place && place < text.length) throw broken(line, "something follows a closing quote");
    place = end;
    line += 1;
    if (cells.length > 1 || cells[0] !== "") records.push({ line: begins, cells });
  }
  return records;
}

interface Cell {
  readonly value: string;
  readonly end: number;
  /** Line ends inside it. */
  readonly lines: number;
}

function plainCell(text: string, from: number, separator: string): Cell {
  let end = from;
  while (end < text.length && text[end] !== separator && text[end] !== "\n" && text[end] !== "\r") end += 1;
  return { value: text.slice(from, end), end, lines: 0 };
}

function quotedCell(text: string, from: number, line: number): Cell {
  for (let at = from + 1; ; at += 2) {
    at = text.indexOf('"', at);
    if (at === -1) throw broken(line, "a quote is not closed");
    if (text[at + 1] === '"') continue; // two quotes are one
    const raw = text.slice(from + 1, at);
    return { value: raw.replaceAll('""', '"'), end: at + 1, lines: raw.split("\n").length - 1 };
  }
}

function lineEnd(text: string, at: number): number {
  if (text.startsWith("\r\n", at)) return at + 2;
  return text[at] === "\n" || text[at] === "\r" ? at + 1 : at;
}

/** The one that the header has most of. */
function separatorOf(text: string): string {
  const [header = ""] = text.split(/[\r\n]/, 1);
  const count = (separator: string) => header.split(separator).length;
  return SEPARATORS.reduce((most, separator) => (count(separator) > count(most) ? separator : most));
}

function broken(line: number, what: string): LedgerError {
  return new LedgerError("list_invalid", `line ${line}: ${what}`, { hint: "mend the file; nothing was done" });
}
