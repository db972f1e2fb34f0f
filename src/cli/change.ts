/**
 * What every change of authority prints: what was done, or would be, and what it came too late for. The change itself is
 * the SQL function's.
 */
import type { Command } from "commander";
import { cleanText } from "../core/text.ts";
import { readClock } from "../store/audit.ts";
import { type ConcernedRow, runChange } from "../store/control.ts";
import { type GlobalFlags, withAudit } from "./connection.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import { formatMoment } from "./moment.ts";
import type { Output } from "./output.ts";
import { shortId } from "./short-id.ts";
import { tableLines } from "./table.ts";

/** Options that every change has. */
export interface ChangeFlags {
  readonly reason: string;
  readonly dryRun?: true;
}

export function withChangeOptions(command: Command): Command {
  return command
    .requiredOption("--reason <reason>", "why, for whoever reads the history: 1 to 500 characters")
    .option("--dry-run", "show what it would meet, and change nothing");
}

export interface ConcernedChange {
  readonly text: string;
  readonly values: readonly unknown[];
  /** In words: what is done, what would be done, and what becomes of what waits. */
  readonly done: string;
  readonly wouldBe: string;
  readonly whatWaits: string;
}

/** Ids that are printed, before "and more"; --json has all. */
const IN_FLIGHT_SHOWN_MAX = 20;

/** Runs a change on the ledger that is meant, and prints what it meets. */
export async function change(
  output: Output,
  flags: ChangeFlags & GlobalFlags,
  { text, values, done, wouldBe, whatWaits }: ConcernedChange,
): Promise<ExitCode> {
  return withAudit(flags, async ({ audit, connectionString }) => {
    const dryRun = flags.dryRun === true;
    const { result } = await runChange<{ result: ConcernedRow }>(connectionString, { text, values, dryRun });
    output.document({ dry_run: dryRun, ...result });
    output.line(cleanText(dryRun ? `${wouldBe}; nothing is changed` : done));
    const now = await readClock(audit);
    for (const line of tableLines(FACTS, concernedFacts(result, whatWaits, now))) output.line(`  ${line}`);
    return EXIT.done;
  });
}

type Fact = readonly [what: string, count: number, words: string];

const FACTS = [
  { title: "", cell: ([what]: Fact) => what },
  { title: "", align: "right" as const, cell: ([, count]: Fact) => String(count) },
  { title: "", cell: ([, , words]: Fact) => words },
];

function concernedFacts(
  { waiting, in_flight, unresolved, first_expires_at }: ConcernedRow,
  whatWaits: string,
  now: Date,
) {
  const expires = first_expires_at && `the first expires ${formatMoment(new Date(first_expires_at), now)}`;
  const more = in_flight.length - IN_FLIGHT_SHOWN_MAX;
  const ids = in_flight.slice(0, IN_FLIGHT_SHOWN_MAX).map(shortId).join(", ");
  return [
    ["waiting", waiting, waiting > 0 ? [whatWaits, expires].filter(Boolean).join("; ") : ""],
    [
      "in flight",
      in_flight.length,
      in_flight.length > 0 ? `beyond recall: ${ids}${more > 0 ? ` and ${more} more` : ""}` : "",
    ],
    ["unresolved", unresolved, unresolved > 0 ? "nobody knows whether they happened: pg-effects unresolved" : ""],
  ] satisfies readonly Fact[];
}
