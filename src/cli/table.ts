/** Plain tables: two spaces between columns, as wide as their widest cell, numbers to the right. Text is shown inert. */
import { cleanText } from "../core/text.ts";

/** What is shown of one cell. A name has at most 200 characters; a recipient's words may be longer. */
const CELL_MAX = 200;

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => string;
  readonly align?: "right";
}

/** The lines of a table, below its header where a column has a title; without rows none. */
export function tableLines<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): readonly string[] {
  if (rows.length === 0) return [];
  const cells = rows.map((row) => columns.map((column) => cleanText(column.cell(row), CELL_MAX)));
  // A column in which nothing stands says nothing.
  const shown = columns.map((_, place) => cells.some((line) => line[place] !== ""));
  const kept = <Cell>(line: readonly Cell[]) => line.filter((_, place) => shown[place]);
  const header = columns.some(({ title }) => title !== "") ? [columns.map(({ title }) => title)] : [];
  const lines = [...header, ...cells].map(kept);
  const widths = kept(columns).map((_, place) => Math.max(...lines.map((line) => line[place]?.length ?? 0)));
  const aligned = kept(columns).map(({ align }) => align);
  return lines.map((line) =>
    line
      .map((cell, place) =>
        aligned[place] === "right" ? cell.padStart(widths[place] ?? 0) : cell.padEnd(widths[place] ?? 0),
      )
      .join("  ")
      .trimEnd(),
  );
}
