/** `list`: effects, newest first. */
import { type Command, Option } from "commander";
import { LedgerError } from "../../core/error.ts";
import { STATES, type State } from "../../core/state.ts";
import { type Audit, isKnown, listEffects, readClock } from "../../store/audit.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { formatMoment, parseMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { shortId } from "../short-id.ts";
import { standingWords } from "../standing-words.ts";
import { tableLines } from "../table.ts";

interface ListFlags {
  readonly state?: State;
  readonly operation?: string;
  readonly task?: string;
  readonly since?: string;
  readonly limit: number;
}

export function addList(program: Command): void {
  const command = program
    .command("list")
    .summary("effects, newest first")
    .description("Effects, newest first.")
    .addOption(new Option("--state <state>", "only those in this state").choices(STATES))
    .option("--operation <name>", "only those of this operation")
    .option("--task <name>", "only those requested under this very task")
    .option("--since <moment>", "only those requested since: 2026-11-30T02:00Z, 02:00, or 2h for two hours ago")
    .option("--limit <n>", "at most so many", wholeNumber(1, 10_000), 50)
    .action((_flags: ListFlags, self: Command) => conclude<ListFlags>(self, run));
  withExamples(command, ["list --state declined --since 1h", "list --task customers/42 --json"]);
}

async function run(output: Output, flags: ListFlags & GlobalFlags): Promise<ExitCode> {
  const { state, operation, task, limit } = flags;
  const since = flags.since === undefined ? undefined : parseMoment(flags.since, "past");
  return withAudit(flags, async ({ audit }) => {
    const effects = await listEffects(audit, { state, operation, task, since, limit });
    if (effects.length === 0) await refuseUnknown(audit, flags);
    const now = await readClock(audit);
    output.document(effects);
    const lines = tableLines(
      [
        { title: "effect", cell: ({ effect_id }) => shortId(effect_id) },
        { title: "requested", cell: ({ requested_at }) => formatMoment(requested_at, now) },
        { title: "operation", cell: ({ operation, operation_version }) => `${operation} ${operation_version}` },
        { title: "task", cell: ({ task_name }) => task_name },
        { title: "name", cell: ({ name }) => name ?? "" },
        { title: "state", cell: (effect) => standingWords(effect, now) },
      ],
      effects,
    );
    for (const line of lines) output.line(line);
    if (effects.length === 0) output.note("no effect matches");
    if (effects.length === limit) output.note(`the newest ${limit}; --limit shows more`);
    return EXIT.done;
  });
}

/** An empty list must not hide a mistyped name. */
async function refuseUnknown(audit: Audit, flags: ListFlags): Promise<void> {
  for (const kind of ["operation", "task"] as const) {
    const name = flags[kind];
    if (name === undefined || (await isKnown(audit, kind, name))) continue;
    throw new LedgerError(`${kind}_unknown`, `no ${kind} is named ${JSON.stringify(name)}`, {
      hint: `correct --${kind}`,
    });
  }
}
