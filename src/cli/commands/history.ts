/** `history`: who changed what authority there is, from what to what, and why. */
import type { Command } from "commander";
import { readClock } from "../../store/audit.ts";
import { listAuthority } from "../../store/audit-control.ts";
import { conclude, withExamples } from "../action.ts";
import { changeWords, fromToWords } from "../authority-words.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { formatMoment, parseMoment, zoneName } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { tableLines } from "../table.ts";

interface HistoryFlags {
  readonly since?: string;
  readonly by?: string;
  readonly limit: number;
}

export function addHistory(program: Command): void {
  const command = program
    .command("history")
    .summary("who changed what authority there is, and why")
    .description("Changes of authority, in order: pauses, revocations, withdrawals, budgets, with who and why.")
    .option("--since <moment>", "only since: 2026-11-30T02:00Z, 02:00, or 12h for twelve hours ago")
    .option("--by <role>", "only this role's")
    .option("--limit <n>", "at most so many, the newest", wholeNumber(1, 10_000), 50)
    .action((_flags: HistoryFlags, self: Command) => conclude<HistoryFlags>(self, run));
  withExamples(command, ["history --since 12h", "history --since 02:00 --by ana --json"]);
}

async function run(output: Output, { by, limit, ...flags }: HistoryFlags & GlobalFlags): Promise<ExitCode> {
  const since = flags.since === undefined ? undefined : parseMoment(flags.since, "past");
  return withAudit(flags, async ({ audit }) => {
    const changes = (await listAuthority(audit, { since, by, limit })).toReversed();
    const now = await readClock(audit);
    output.document(changes);
    const lines = tableLines(
      [
        { title: `time (${zoneName()})`, cell: ({ at }) => formatMoment(at, now) },
        { title: "who", cell: ({ by_role }) => by_role },
        { title: "change", cell: changeWords },
        { title: "", cell: (changed) => fromToWords(changed, now) },
        { title: "reason", cell: ({ reason }) => reason ?? "" },
      ],
      changes,
    );
    for (const line of lines) output.line(line);
    if (changes.length === 0) output.note("nothing was changed");
    if (changes.length === limit) output.note(`the newest ${limit}; --limit shows more`);
    return EXIT.done;
  });
}
