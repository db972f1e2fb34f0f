/**
 * A list of effects in a file: CSV with a header, or a JSON object a line. It is read and checked as a whole before
 * anything is done, so that a mistake in the last line stops the first one too. Which effects are meant is not known here.
 */
import { createHash } from "node:crypto";
import { basename } from "node:path";
import { LedgerError } from "../core/error.ts";
import { repeatedKey } from "../core/repeated-key.ts";
import { cleanText } from "../core/text.ts";
import type { Match } from "../store/audit-resolution.ts";
import { type CsvRecord, parseCsv } from "./csv.ts";
import type { EvidenceFile } from "./evidence-option.ts";
import { decodeUtf8 } from "./input-text.ts";
import { readBytes } from "./key-option.ts";
import { type Cost, collectCost } from "./unit-digits.ts";

/** Held in memory at once; far above a night's doubts. */
const LIST_BYTES_MAX = 16_777_216;
export const LIST_LINES_MAX = 100_000;

export const SAYS = ["accepted", "failed", "no_effect"] as const;
export type Says = (typeof SAYS)[number];

/** One effect of a list, as it was written. */
export interface Listed {
  /** In the file, from 1. */
  readonly line: number;
  /** What names it: a key, a reference, or an effect. */
  readonly given: string;
  readonly as: Says | null;
  /** The recipient's own id, where the line has one. */
  readonly reference: string | null;
  readonly cost: Cost | null;
}

export interface EffectList {
  readonly listed: readonly Listed[];
  /** Columns that mean nothing here. */
  readonly unused: readonly string[];
}

/** The columns that mean something; others are left alone. */
export const COLUMNS = ["key", "reference", "effect", "as", "cost"] as const;
type Column = (typeof COLUMNS)[number];
type Fields = Partial<Record<Column, string>>;

/** For --help of every command that takes one. */
export const LIST_HELP =
  "CSV with a header, or a JSON object a line: a column key, reference or effect, as --match says; as, reference and cost " +
  "(usd_cents=4000) where there are any";

/** A list and the file that it was read from. */
export interface ReadList extends EffectList {
  readonly file: EvidenceFile;
}

/** Reads a list. @throws LedgerError `list_invalid` with the line, `input_unreadable` */
export async function readList(path: string, match: Match): Promise<ReadList> {
  const bytes = await readBytes(path, LIST_BYTES_MAX);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const file = { file: basename(path), sha256, bytes: bytes.length };
  return { ...parseList(decodeUtf8(bytes, path), match), file };
}

/** @throws LedgerError `list_invalid` */
export function parseList(text: string, match: Match): EffectList {
  const bare = text.replace(/^\ufeff/, "");
  const { rows, unused } = /^\s*\{/.test(bare) ? jsonRows(bare) : csvRows(bare);
  if (rows.length === 0) throw wrong(1, "the list is empty");
  if (rows.length > LIST_LINES_MAX) throw wrong(LIST_LINES_MAX + 1, `a list has at most ${LIST_LINES_MAX} effects`);
  return { listed: rows.map((row) => listedOf(row, match)), unused };
}

interface Row {
  readonly line: number;
  readonly fields: Fields;
}
interface Rows {
  readonly rows: readonly Row[];
  readonly unused: readonly string[];
}

function listedOf({ line, fields }: Row, match: Match): Listed {
  const given = fields[match] ?? "";
  if (given === "") throw wrong(line, `it has no ${match}`);
  const as = fields.as ?? "";
  if (as !== "" && !isSays(as)) throw wrong(line, `as ${JSON.stringify(as)} says nothing: ${SAYS.join(", ")}`);
  return {
    line,
    given: match === "key" ? given.toLowerCase() : given,
    as: as === "" ? null : as,
    reference: fields.reference || null,
    cost: fields.cost ? costOf(line, fields.cost) : null,
  };
}

function isSays(word: string): word is Says {
  return SAYS.some((says) => says === word);
}

/** `usd_cents=4000 mails=1` */
function costOf(line: number, text: string): Cost {
  try {
    return text
      .trim()
      .split(/\s+/)
      .reduce<Cost>((cost, part) => collectCost(part, cost), {});
  } catch (error) {
    if (error instanceof LedgerError) throw wrong(line, error.message);
    throw error;
  }
}

function csvRows(text: string): Rows {
  const [header, ...records] = parseCsv(text);
  const titles = (header?.cells ?? []).map((title) => title.trim());
  const columns = titles.map((title) => columnOf(title.toLowerCase()));
  const twice = columns.find((column, place) => column !== null && columns.indexOf(column) !== place);
  if (twice) throw wrong(1, `two columns are named ${twice}`);
  const fieldsOf = ({ line, cells }: CsvRecord): Fields => {
    if (cells.length !== columns.length)
      throw wrong(line, `it has ${cells.length} cells, the header ${columns.length}`);
    return Object.fromEntries(
      columns.flatMap((column, place) => (column === null ? [] : [[column, (cells[place] ?? "").trim()]])),
    );
  };
  return {
    rows: records.map((record) => ({ line: record.line, fields: fieldsOf(record) })),
    unused: titles.filter((_, place) => columns[place] === null),
  };
}

function jsonRows(text: string): Rows {
  const unused = new Set<string>();
  const rows = text.split(/\r?\n/).flatMap((source, place): readonly Row[] => {
    if (source.trim() === "") return [];
    const line = place + 1;
    const fields: Fields = {};
    for (const [title, value] of Object.entries(jsonObject(source, line))) {
      const column = columnOf(title);
      if (column === null) unused.add(title);
      else if (value !== null) fields[column] = jsonField(value, column, line);
    }
    return [{ line, fields }];
  });
  return { rows, unused: [...unused] };
}

function jsonObject(source: string, line: number): object {
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch (error) {
    throw wrong(line, `it is not JSON: ${cleanText((error as Error).message, 200)}`);
  }
  const twice = repeatedKey(source);
  if (twice !== null) throw wrong(line, `${twice} stands twice in it`);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw wrong(line, "it is no JSON object");
}

/** A number is taken only where a double holds every digit of it. */
function jsonField(value: unknown, column: Column, line: number): string {
  if (typeof value === "string") return value.trim();
  if (typeof value === "number" && Number.isSafeInteger(value)) return String(value);
  if (column === "cost" && typeof value === "object" && value !== null && !Array.isArray(value)) {
    return Object.entries(value)
      .map(([unit, amount]) => `${unit}=${jsonField(amount, "key", line)}`)
      .join(" ");
  }
  throw wrong(line, `${column} is neither text nor a whole number`);
}

function columnOf(title: string): Column | null {
  return COLUMNS.find((column) => column === title) ?? null;
}

function wrong(line: number, what: string): LedgerError {
  return new LedgerError("list_invalid", `line ${line}: ${what}`, {
    hint: `mend the list; nothing was done. ${LIST_HELP}`,
  });
}
