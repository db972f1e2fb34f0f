/** Rows as aligned text, the way psql shows them. It only lays out: what a cell says is its caller's. */

/** A header, a rule, the rows. The last column is not padded. */
export function textTable(columns: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const widths = columns.map((column, place) =>
    Math.max(column.length, ...rows.map((row) => (row[place] ?? "").length)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, place) => cell.padEnd(widths[place] ?? 0))
      .join(" | ")
      .trimEnd();
  return [line(columns), widths.map((width) => "-".repeat(width)).join("-+-"), ...rows.map(line)];
}
