/** `resolve`: what a person found out about an unresolved effect, or about two hundred of them from a bank's file. */
import { type Command, Option } from "commander";
import { LedgerError } from "../../core/error.ts";
import { cleanText } from "../../core/text.ts";
import { MATCHES, type Match } from "../../store/audit-resolution.ts";
import { runChange } from "../../store/control.ts";
import { RESOLVE } from "../../store/resolution.ts";
import { actOnList } from "../act-on-list.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { LIST_HELP, type Listed, readList, SAYS, type Says } from "../effect-list.ts";
import { digestFile, EVIDENCE_HELP, readEvidence } from "../evidence-option.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { EFFECT_HELP, findEffect } from "../find-effect.ts";
import type { Output } from "../output.ts";
import { settlementWords } from "../settlement-words.ts";
import { calledBy } from "../short-id.ts";
import { type Cost, collectCost } from "../unit-digits.ts";
import { watching } from "../watch.ts";

interface ResolveFlags extends ChangeFlags {
  readonly as?: Says;
  readonly evidence: string;
  readonly reference?: string;
  readonly cost?: Cost;
  readonly from?: string;
  readonly match?: Match;
}

const EXAMPLES = [
  "resolve order/7/charge --as accepted --evidence '{\"statement\": 17}' --reference ch_123 --reason 'on the bank statement'",
  "resolve --from bank.csv --match key --evidence bank.csv --as accepted --reason INC-91 --dry-run",
];

export function addResolve(program: Command): void {
  const command = program
    .command("resolve")
    .summary("settle what is unresolved, by evidence")
    .description(
      "Settle what is unresolved by evidence that somebody has: one effect, or with --from those of a list, each in a " +
        "transaction of its own. The outcome stays `uncertain`; the resolution stands beside it, and settles the budget as " +
        "the outcome it stands for would. What nobody can find out is `accept-risk`.",
    )
    .argument("[effect]", EFFECT_HELP)
    .addOption(new Option("--as <outcome>", "what the evidence says happened").choices(SAYS))
    .requiredOption("--evidence <file|json>", EVIDENCE_HELP)
    .option("--reference <reference>", "the recipient's own id for it")
    .option(
      "--cost <unit=amount>",
      "what it cost, where that was measured; else the maximum is spent; may be given again",
      collectCost,
    )
    .option("--from <file>", `a list: ${LIST_HELP}`)
    .addOption(new Option("--match <what>", "by which column a list names its effects").choices(MATCHES))
    .action((effect: string | undefined, _flags: ResolveFlags, self: Command) =>
      conclude<ResolveFlags>(self, (output, flags) =>
        flags.from === undefined ? runOne(output, flags, effect) : runMany(output, flags, flags.from, effect),
      ),
    );
  withChangeOptions(command);
  withExamples(command, EXAMPLES);
}

async function runOne(output: Output, flags: ResolveFlags & GlobalFlags, given: string | undefined): Promise<ExitCode> {
  const { as, reason, reference = null, cost = null, match } = flags;
  if (given === undefined || as === undefined || match !== undefined) {
    throw new LedgerError("usage_invalid", "one effect is resolved by its name, and --as says as what", {
      hint: "pg-effects resolve EFFECT --as accepted …; a list is --from FILE --match key",
    });
  }
  const evidence = await readEvidence(flags.evidence);
  return withAudit(flags, async ({ audit, connectionString }) => {
    const dryRun = flags.dryRun === true;
    const effect = await findEffect(audit, given);
    const values = [effect.effect_id, as, evidence, reason, reference, cost && JSON.stringify(cost)];
    const settles = await settlementWords(audit, effect.effect_id, as, cost);
    const { answer } = await runChange<{ answer: string }>(connectionString, { text: RESOLVE, values, dryRun });
    const { effect_id, name } = effect;
    output.document({ dry_run: dryRun, effect_id, name, answer, as, evidence: JSON.parse(evidence) });
    output.line(cleanText(resolvedWords(calledBy(effect), as, answer, dryRun)));
    if (answer === "resolved") output.line(`  ${settles}`);
    if (answer === "after_risk") output.line("  its risk had been accepted, which spent the maximum: no sum changes");
    return EXIT.done;
  });
}

function resolvedWords(called: string, as: Says, answer: string, dryRun: boolean): string {
  if (answer === "same") return `${called} was resolved as ${as} by this evidence before`;
  return dryRun ? `${called} would be resolved as ${as}; nothing is changed` : `resolved ${called} as ${as}`;
}

async function runMany(
  output: Output,
  flags: ResolveFlags & GlobalFlags,
  from: string,
  given: string | undefined,
): Promise<ExitCode> {
  const { as, reason, match } = flags;
  if (given !== undefined || match === undefined || flags.reference !== undefined || flags.cost !== undefined) {
    throw new LedgerError("usage_invalid", "a list names its effects, references and costs itself", {
      hint: "pg-effects resolve --from FILE --match key --evidence FILE --reason R, with --as or a column of that name",
    });
  }
  const { listed, unused, file } = await readList(from, match);
  checkSaid(listed, as);
  const { head: _, ...evidence } = await digestFile(flags.evidence);
  const list = file.sha256 === evidence.sha256 ? {} : { list: { file: file.file, sha256: file.sha256 } };
  if (unused.length > 0) output.note(`columns that say nothing here: ${unused.join(", ")}`);
  const saysOf = (line: Listed) => line.as ?? as ?? "accepted"; // one of them is there: checkSaid
  return withAudit(flags, (connected) =>
    watching((signal) =>
      actOnList(connected, output, listed, {
        match,
        dryRun: flags.dryRun === true,
        signal,
        done: (line) => `resolved as ${saysOf(line)}`,
        statement: (effectId, line) => ({
          text: RESOLVE,
          values: [
            effectId,
            saysOf(line),
            JSON.stringify({ ...evidence, ...list, line: line.line }),
            reason,
            line.reference,
            line.cost && JSON.stringify(line.cost),
          ],
        }),
        stands: ({ says }, line) => says === saysOf(line),
      }),
    ),
  );
}

/** Each line says once what happened: itself, or all of them by --as. @throws LedgerError `list_invalid`, `usage_invalid` */
function checkSaid(listed: readonly Listed[], as: Says | undefined): void {
  const silent = listed.find((line) => line.as === null);
  if (as === undefined && silent) {
    throw new LedgerError("list_invalid", `line ${silent.line}: it does not say as what`, {
      hint: "give --as for all of them, or a column named as; nothing was done",
    });
  }
  const speaking = listed.find((line) => line.as !== null);
  if (as !== undefined && speaking) {
    throw new LedgerError("usage_invalid", `--as says ${as}, and line ${speaking.line} says ${speaking.as}`, {
      hint: "leave --as out, or the column; nothing was done",
    });
  }
}
