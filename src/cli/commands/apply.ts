/** `apply`: brings authority to what a reviewed file says, in one transaction, or shows what that would change. */
import type { Command } from "commander";
import { LedgerError } from "../../core/error.ts";
import { cleanText } from "../../core/text.ts";
import { type AppliedChange, applyAuthority } from "../../request/apply.ts";
import { parseAuthorityFile } from "../../request/authority-file.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { readBytes } from "../key-option.ts";
import type { Output } from "../output.ts";
import { shortId } from "../short-id.ts";
import { tableLines } from "../table.ts";

interface ApplyFlags {
  readonly plan?: true;
  readonly reason?: string;
}

/** Far above what a reviewer reads. */
const FILE_BYTES_MAX = 1_048_576;

export function addApply(program: Command): void {
  const command = program
    .command("apply")
    .summary("bring authority to what a reviewed file says")
    .description(
      "Bring root tasks, budgets, policies, approvers, actors, operations and strictness to what a file says " +
        "(docs/authority.md), in one transaction: all of it or nothing. What the file does not mention is left alone. With --plan " +
        "it shows what would be added, changed and revoked, changes nothing, and exits 0.",
    )
    .argument("<file>", "authority as JSON")
    .option("--plan", "show what would change, and change nothing")
    .option("--reason <reason>", "why, for whoever reads the history (default: the file's own reason)")
    .action((file: string, _flags: ApplyFlags, self: Command) =>
      conclude<ApplyFlags>(self, (output, flags) => run(output, flags, file)),
    );
  withExamples(command, ["apply authority.json --plan", "apply authority.json --reason 'reviewed in #91'"]);
}

async function run(output: Output, flags: ApplyFlags & GlobalFlags, file: string): Promise<ExitCode> {
  const planOnly = flags.plan === true;
  const bytes = await readBytes(file, FILE_BYTES_MAX);
  const { wanted, reason: written } = parseAuthorityFile(textOf(bytes, file));
  const reason = flags.reason ?? written;
  if (reason === undefined) {
    throw new LedgerError("usage_invalid", "no reason is given", { hint: "give --reason, or write one into the file" });
  }
  return withAudit(flags, async ({ connectionString }) => {
    const changes = await applyAuthority({ connectionString, wanted, reason, planOnly });
    output.document({
      plan: planOnly,
      changes: changes.map(({ at, kind, object, before, after, met }) => ({ at, kind, object, before, after, met })),
    });
    if (changes.length === 0) output.line("everything stands as the file says: nothing to change");
    for (const line of tableLines(COLUMNS, changes)) output.line(line);
    const count = `${changes.length} change${changes.length === 1 ? "" : "s"}`;
    if (changes.length > 0) output.line(planOnly ? `${count} planned; nothing is changed` : `${count} applied`);
    for (const change of changes) if (lateWords(change)) output.note(lateWords(change));
    return EXIT.done;
  });
}

const COLUMNS = [
  { title: "", cell: ({ kind }: AppliedChange) => kind },
  { title: "", cell: ({ object }: AppliedChange) => object },
  {
    title: "",
    cell: ({ before, after }: AppliedChange) => (before === null ? (after ?? "") : `from ${before} to ${after}`),
  },
];

/** What a change came too late for; empty where nothing. */
function lateWords({ object, met }: AppliedChange): string {
  if (met === null || met.in_flight.length === 0) return "";
  return cleanText(`${object}: in flight, beyond recall: ${met.in_flight.map(shortId).join(", ")}`);
}

function textOf(bytes: Buffer, file: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new LedgerError("input_unreadable", `${file} is not UTF-8`, { hint: "write it as UTF-8", cause });
  }
}
