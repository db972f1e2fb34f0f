/** `source add`, `list` and `revoke`: who may say from outside what became of an effect, and whose word settles it. */
import type { Command } from "commander";
import { cleanText } from "../../core/text.ts";
import { readClock } from "../../store/audit.ts";
import { listSources } from "../../store/audit-resolution.ts";
import { runChange } from "../../store/control.ts";
import { ADD_SOURCE, REVOKE_SOURCE } from "../../store/resolution.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { formatMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { tableLines } from "../table.ts";

interface AddFlags extends ChangeFlags {
  readonly authoritative?: true;
  readonly submittedBy?: string;
}

interface ListFlags {
  readonly limit: number;
}

const EXAMPLES = [
  "source add bank --authoritative --submitted-by statements --reason 'its monthly file'",
  "source list",
  "source revoke bank --reason 'we changed banks'",
];

export function addSource(program: Command): void {
  const source = program
    .command("source")
    .helpCommand(false)
    .summary("sources of evidence: add, list, revoke")
    .description(
      "Sources: who may say from outside what became of an effect (evidence submit). The word of an authoritative one " +
        "settles what is open; another one's is kept for people. Either may contradict what is recorded.",
    );
  withExamples(source, EXAMPLES);
  const add = source
    .command("add")
    .summary("register a source")
    .description(
      "Register a source. The same again is the same; a source is not changed: revoke it, and add another name.",
    )
    .argument("<name>", "a lower-case word")
    .option("--authoritative", "its word settles what is open")
    .option(
      "--submitted-by <role>",
      "only this role submits for it; an authoritative one wants that where there are roles",
    )
    .action((name: string, _flags: AddFlags, self: Command) =>
      conclude<AddFlags>(self, (output, flags) => runAdd(output, flags, name)),
    );
  const list = source
    .command("list")
    .summary("every source, and whether its word settles anything")
    .description("Every source, live ones first: who submits for it, and whether its word settles what is open.")
    .option("--limit <n>", "at most so many", wholeNumber(1, 10_000), 100)
    .action((_flags: ListFlags, self: Command) => conclude<ListFlags>(self, runList));
  const revoke = source
    .command("revoke")
    .summary("take no more evidence from a source")
    .description("Take no more evidence from a source. There is no way back. What it said stays.")
    .argument("<name>", "its name")
    .action((name: string, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) => runRevoke(output, flags, name)),
    );
  withChangeOptions(add);
  withChangeOptions(revoke);
  withExamples(add, EXAMPLES.slice(0, 1));
  withExamples(list, EXAMPLES.slice(1, 2));
  withExamples(revoke, EXAMPLES.slice(2));
}

async function runAdd(output: Output, flags: AddFlags & GlobalFlags, name: string): Promise<ExitCode> {
  const { reason, authoritative = false, submittedBy = null } = flags;
  return withAudit(flags, async ({ connectionString }) => {
    const dryRun = flags.dryRun === true;
    const values = [name, reason, authoritative, submittedBy];
    await runChange(connectionString, { text: ADD_SOURCE, values, dryRun });
    output.document({ dry_run: dryRun, source: name, authoritative, submitted_by: submittedBy });
    const word = authoritative ? "its word settles what is open" : "its word is kept for people";
    const by = submittedBy === null ? "anybody who may submit evidence" : submittedBy;
    output.line(
      cleanText(
        dryRun
          ? `source ${name} would be registered; nothing is changed`
          : `source ${name} is registered: ${word}; ${by} submits for it`,
      ),
    );
    return EXIT.done;
  });
}

async function runList(output: Output, { limit, ...flags }: ListFlags & GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const sources = await listSources(audit, limit);
    const now = await readClock(audit);
    output.document(sources);
    const lines = tableLines(
      [
        { title: "source", cell: ({ source }) => source },
        {
          title: "its word",
          cell: ({ authoritative }) => (authoritative ? "settles what is open" : "is kept for people"),
        },
        { title: "submitted by", cell: ({ submitted_by }) => submitted_by ?? "anybody who may" },
        { title: "added", cell: ({ added_at, added_by }) => `${formatMoment(added_at, now)} by ${added_by}` },
        {
          title: "standing",
          cell: ({ revoked_at }) => (revoked_at === null ? "live" : `revoked ${formatMoment(revoked_at, now)}`),
        },
      ],
      sources,
    );
    for (const line of lines) output.line(line);
    if (sources.length === 0) output.note("there is no source: pg-effects source add");
    if (sources.length === limit) output.note(`the first ${limit}; --limit shows more`);
    return EXIT.done;
  });
}

async function runRevoke(output: Output, flags: ChangeFlags & GlobalFlags, name: string): Promise<ExitCode> {
  return withAudit(flags, async ({ connectionString }) => {
    const dryRun = flags.dryRun === true;
    await runChange(connectionString, { text: REVOKE_SOURCE, values: [name, flags.reason], dryRun });
    output.document({ dry_run: dryRun, source: name, revoked: !dryRun });
    output.line(
      cleanText(dryRun ? `source ${name} would be revoked, for good; nothing is changed` : `revoked source ${name}`),
    );
    return EXIT.done;
  });
}
