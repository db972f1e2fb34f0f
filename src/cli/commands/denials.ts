/** `denials`: which rule said no, how often, and when last. */
import { type Command, Option } from "commander";
import { readClock } from "../../store/audit.ts";
import { DENIAL_GROUPS, type DenialGroup, sumDenials } from "../../store/audit-control.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { formatMoment, parseMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { tableLines } from "../table.ts";

interface DenialsFlags {
  readonly since?: string;
  readonly by: DenialGroup;
  readonly limit: number;
}

export function addDenials(program: Command): void {
  const command = program
    .command("denials")
    .summary("which rule said no, how often, and when last")
    .description("Verdicts against effects, summed by rule. An effect's denial counts once until its reason changes.")
    .option("--since <moment>", "only since: 2026-11-30T02:00Z, 02:00, or 1h for an hour ago")
    .addOption(
      new Option("--by <group>", "by code alone, or by operation or task as well")
        .choices(DENIAL_GROUPS)
        .default("code"),
    )
    .option("--limit <n>", "at most so many lines", wholeNumber(1, 10_000), 50)
    .action((_flags: DenialsFlags, self: Command) => conclude<DenialsFlags>(self, run));
  withExamples(command, ["denials --since 1h", "denials --since 02:00 --by task"]);
}

async function run(output: Output, { by, limit, ...flags }: DenialsFlags & GlobalFlags): Promise<ExitCode> {
  const since = flags.since === undefined ? undefined : parseMoment(flags.since, "past");
  return withAudit(flags, async ({ audit }) => {
    const sums = await sumDenials(audit, { by, since, limit });
    const now = await readClock(audit);
    output.document({ by, denials: sums });
    const lines = tableLines(
      [
        { title: by, cell: ({ group, code }) => (by === "code" ? code : group) },
        { title: "code", cell: ({ code }) => (by === "code" ? "" : code) },
        { title: "denials", align: "right", cell: ({ count }) => String(count) },
        { title: "last", cell: ({ last }) => formatMoment(last, now) },
        { title: "", cell: ({ transient }) => (transient ? "transient" : "final") },
        { title: "hint", cell: ({ hint }) => hint ?? "" },
      ],
      sums,
    );
    for (const line of lines) output.line(line);
    if (sums.length === 0) output.note("nothing was denied");
    if (sums.length === limit) output.note(`the ${limit} most frequent; --limit shows more`);
    return EXIT.done;
  });
}
