/** What an auditor types, run for real as it stands, with its result. */
import type { Stage } from "./stage.ts";
import type { Story } from "./story.ts";
import { textTable } from "./text-table.ts";

const EFFECTS = "select name, operation, state, outcome_via, unresolved from audit.effects order by requested_at";
const TIMELINE = `select to_char(at, 'HH24:MI:SS.MS') as at, what, by_role
  from audit.timeline where name = 'order/1001/charge' order by timeline.at`;
const VIOLATIONS = "select * from audit.violations";

export interface AuditAnswer {
  readonly sql: string;
  readonly columns: readonly string[];
  /** As psql shows them: booleans t and f, null as nothing. */
  readonly rows: readonly (readonly string[])[];
}

export async function audit(stage: Stage, story: Story): Promise<readonly AuditAnswer[]> {
  const effects = await tell(stage, story, EFFECTS);
  story.saw(
    "audit_effects",
    Object.fromEntries(
      effects.rows.map(([name = "", , state, via, unresolved]) => [
        name,
        [state, via, unresolved === "t" ? "unresolved" : ""].filter((word) => word !== "").join(" "),
      ]),
    ),
  );
  const timeline = await tell(stage, story, TIMELINE);
  const steps = timeline.rows.map(([, what]) => what);
  story.saw("audit_one_dispatch", {
    admitted: steps.filter((step) => step === "admitted").length,
    accepted: steps.filter((step) => step === "accepted").length,
  });
  const violations = await tell(stage, story, VIOLATIONS);
  story.saw("audit_violations", { violations: violations.rows.length });
  return [effects, timeline, violations];
}

async function tell({ databases }: Stage, story: Story, sql: string): Promise<AuditAnswer> {
  const answer = await databases.pools.ledger.query<unknown[]>({ text: sql, rowMode: "array" });
  const columns = answer.fields.map(({ name }) => name);
  const rows = answer.rows.map((row) => row.map(shown));
  const count = rows.length === 1 ? "(1 row)" : `(${rows.length} rows)`;
  const prompt = sql.split("\n").map((line, place) => (place === 0 ? `  ledger=> ${line}` : `          ${line}`));
  story.line("");
  for (const line of [...prompt.slice(0, -1), `${prompt.at(-1)};`]) story.line(line);
  for (const line of [...textTable(columns, rows), count]) story.line(`  ${line}`);
  return { sql, columns, rows };
}

function shown(cell: unknown): string {
  if (cell === null) return "";
  if (typeof cell === "boolean") return cell ? "t" : "f";
  return String(cell);
}
