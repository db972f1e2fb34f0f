/**
 * Plain tables: two spaces between columns, as wide as their widest cell, numbers to the right. Text is shown inert. On a
 * terminal that is too narrow the last column is wrapped, or where that does not help each row stands below the other.
 */
import { cleanText } from "../core/text.ts";

/** What is shown of one cell. A name has at most 200 characters; a recipient's words may be longer. */
const CELL_MAX = 200;

/** A last column narrower than this is not worth wrapping. */
const WRAPPED_MIN = 24;

const GAP = "  ";

/** Some tables stand below a line of words, indented by so much. */
const INDENT_MAX = 2;

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => string;
  readonly align?: "right";
  /** Shown where nothing stands in it, too: where a screen must not jump. */
  readonly always?: true;
}

/** The lines of a table, below its header where a column has a title; without rows none. @param width of the screen */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width: number = screenWidth(),
): readonly string[] {
  if (rows.length === 0) return [];
  const cells = rows.map((row) => columns.map((column) => cleanText(column.cell(row), CELL_MAX)));
  // A column in which nothing stands says nothing.
  const shown = columns.map(({ always }, place) => always || cells.some((line) => line[place] !== ""));
  const kept = <Cell>(line: readonly Cell[]) => line.filter((_, place) => shown[place]);
  const titles = kept(columns).map(({ title }) => title);
  const headed = titles.some((title) => title !== "");
  const lines = [...(headed ? [titles] : []), ...cells.map(kept)];
  const widths = titles.map((_, place) => Math.max(...lines.map((line) => line[place]?.length ?? 0)));
  const before = widths.slice(0, -1).reduce((sum, each) => sum + each + GAP.length, 0);
  const left = width - before;
  if (left < (widths.at(-1) ?? 0) && left < WRAPPED_MIN && headed) return records(titles, cells.map(kept));
  const aligned = kept(columns).map(({ align }) => align);
  return lines.flatMap((line) => {
    const padded = line.map((cell, place) =>
      aligned[place] === "right" ? cell.padStart(widths[place] ?? 0) : cell.padEnd(widths[place] ?? 0),
    );
    const [first = "", ...rest] = wrapped((padded.at(-1) ?? "").trimEnd(), Math.max(left, WRAPPED_MIN));
    const head = padded.slice(0, -1).map((cell) => cell + GAP);
    return [`${head.join("")}${first}`, ...rest.map((words) => `${" ".repeat(before)}${words}`)].map((each) =>
      each.trimEnd(),
    );
  });
}

/** Each row as lines of title and cell, with an empty line between two. */
function records(titles: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const widest = Math.max(...titles.map((title) => title.length));
  return rows.flatMap((row, at) => {
    const lines = row.flatMap((cell, place) =>
      cell === "" ? [] : [`${(titles[place] ?? "").padEnd(widest)}${GAP}${cell}`],
    );
    return at === 0 ? lines : ["", ...lines];
  });
}

/** Broken between words, and never within one: a digest in two pieces cannot be copied. */
function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let left = text;
  while (left.length > width) {
    const before = left.lastIndexOf(" ", width);
    const at = before > 0 ? before : left.indexOf(" ", width);
    if (at === -1) break;
    lines.push(left.slice(0, at));
    left = left.slice(at).trimStart();
  }
  return [...lines, left];
}

/** Where no person looks, nothing is wrapped: a file and a pipe have no width. */
function screenWidth(): number {
  const { isTTY, columns } = process.stdout;
  return isTTY && columns ? columns - INDENT_MAX : Number.POSITIVE_INFINITY;
}
