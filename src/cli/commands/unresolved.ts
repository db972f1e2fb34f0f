/** `unresolved`: of what nobody knows whether it happened, how old it is, and how much is held for it. */
import { type Command, Option } from "commander";
import { type Audit, readClock } from "../../store/audit.ts";
import { countUnresolved, listUnresolved, sumUnresolved, UNRESOLVED_GROUPS } from "../../store/audit-unresolved.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { formatAge } from "../moment.ts";
import { nextStep } from "../next-step.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { shortId } from "../short-id.ts";
import { amountWords } from "../standing-words.ts";
import { tableLines } from "../table.ts";

interface UnresolvedFlags {
  readonly by?: (typeof UNRESOLVED_GROUPS)[number];
  readonly limit: number;
}

export function addUnresolved(program: Command): void {
  const command = program
    .command("unresolved")
    .summary("what is in doubt, how old, and how much is held")
    .description(
      "What is in doubt, how old, why, how much is held for it, and what can be done next. Exit code 3 when there is any.",
    )
    .addOption(new Option("--by <group>", "sum by operation, by task or by target").choices(UNRESOLVED_GROUPS))
    .option("--limit <n>", "at most so many lines", wholeNumber(1, 10_000), 50)
    .action((_flags: UnresolvedFlags, self: Command) => conclude<UnresolvedFlags>(self, run));
  withExamples(command, ["unresolved", "unresolved --by operation"]);
}

async function run(output: Output, flags: UnresolvedFlags & GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const count = await countUnresolved(audit);
    if (flags.by) await showSums(audit, output, flags.by, flags.limit);
    else await showEach(audit, output, flags.limit, count);
    if (count === 0n) {
      output.line("nothing is unresolved");
      return EXIT.done;
    }
    const are = count === 1n ? "1 effect is" : `${count} effects are`;
    output.line(`exit 3      ${are} unresolved; those not asked about yet: pg-effects reconcile --all --deadline 15m`);
    return EXIT.unresolved;
  });
}

async function showEach(audit: Audit, output: Output, limit: number, count: bigint): Promise<void> {
  const found = await listUnresolved(audit, limit);
  const now = await readClock(audit);
  const effects = found.map((doubt) => ({ ...doubt, next: nextStep(doubt, now) }));
  output.document({ count, unresolved: effects });
  const lines = tableLines(
    [
      { title: "effect", cell: ({ effect_id }) => shortId(effect_id) },
      { title: "operation", cell: ({ operation }) => operation },
      { title: "task", cell: ({ task_path }) => task_path },
      { title: "name", cell: ({ name }) => name ?? "" },
      { title: "age", align: "right", cell: ({ since }) => formatAge(since, now) },
      { title: "held in doubt", cell: ({ held }) => amountWords(held) },
      { title: "reason", cell: ({ reason }) => reason },
      { title: "next: pg-effects …", cell: ({ next }) => next },
    ],
    effects,
  );
  for (const line of lines) output.line(line);
  if (count > BigInt(effects.length)) output.note(`the oldest ${effects.length} of ${count}; --limit shows more`);
}

async function showSums(
  audit: Audit,
  output: Output,
  by: NonNullable<UnresolvedFlags["by"]>,
  limit: number,
): Promise<void> {
  const sums = await sumUnresolved(audit, by, limit);
  const now = await readClock(audit);
  output.document({ by, unresolved: sums });
  const lines = tableLines(
    [
      { title: by, cell: ({ group }) => group ?? "" },
      { title: "unresolved", align: "right", cell: ({ count }) => String(count) },
      { title: "oldest", align: "right", cell: ({ oldest }) => formatAge(oldest, now) },
      { title: "held in doubt", cell: ({ held }) => amountWords(held) },
    ],
    sums,
  );
  for (const line of lines) output.line(line);
  if (sums.length === limit) output.note(`the largest ${limit}; --limit shows more`);
}
