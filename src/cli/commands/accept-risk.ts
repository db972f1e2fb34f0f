/** `accept-risk`: ends a doubt that nobody can end by evidence. It never says that nothing happened. */
import { type Command, Option } from "commander";
import { LedgerError } from "../../core/error.ts";
import { cleanText } from "../../core/text.ts";
import { MATCHES, type Match } from "../../store/audit-resolution.ts";
import { runChange } from "../../store/control.ts";
import { ACCEPT_RISK } from "../../store/resolution.ts";
import { actOnList } from "../act-on-list.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { LIST_HELP, readList } from "../effect-list.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { EFFECT_HELP, findEffect } from "../find-effect.ts";
import type { Output } from "../output.ts";
import { settlementWords } from "../settlement-words.ts";
import { calledBy } from "../short-id.ts";
import { watching } from "../watch.ts";

interface AcceptRiskFlags extends ChangeFlags {
  readonly from?: string;
  readonly match: Match;
}

export function addAcceptRisk(program: Command): void {
  const command = program
    .command("accept-risk")
    .summary("end a doubt without an answer, at the maximum cost")
    .description(
      "End a doubt without an answer: the maximum is spent, and the record never says that nothing happened. Evidence that " +
        "comes later is a resolution beside it, and no contradiction. Ask the recipient first: reconcile.",
    )
    .argument("[effect]", EFFECT_HELP)
    .option("--from <file>", `a list: ${LIST_HELP}`)
    .addOption(
      new Option("--match <what>", "by which column a list names its effects").choices(MATCHES).default("effect"),
    )
    .action((effect: string | undefined, _flags: AcceptRiskFlags, self: Command) =>
      conclude<AcceptRiskFlags>(self, (output, flags) => run(output, flags, effect)),
    );
  withChangeOptions(command);
  withExamples(command, [
    "accept-risk order/7/mail --reason 'a reminder; if it came twice, no harm' --dry-run",
    "accept-risk --from doubts.csv --reason INC-91",
  ]);
}

async function run(output: Output, flags: AcceptRiskFlags & GlobalFlags, given: string | undefined): Promise<ExitCode> {
  const { from } = flags;
  if (from === undefined && given !== undefined) return runOne(output, flags, given);
  if (from !== undefined && given === undefined) return runMany(output, flags, from);
  throw new LedgerError("usage_invalid", "an effect or a list is named", {
    hint: "give the effect, or --from FILE, and not both",
  });
}

async function runOne(output: Output, flags: AcceptRiskFlags & GlobalFlags, given: string): Promise<ExitCode> {
  return withAudit(flags, async ({ audit, connectionString }) => {
    const dryRun = flags.dryRun === true;
    const effect = await findEffect(audit, given);
    const settles = await settlementWords(audit, effect.effect_id, null, null);
    const values = [effect.effect_id, flags.reason];
    const { answer } = await runChange<{ answer: string }>(connectionString, { text: ACCEPT_RISK, values, dryRun });
    output.document({ dry_run: dryRun, effect_id: effect.effect_id, name: effect.name, answer });
    const called = calledBy(effect);
    if (answer === "same") output.line(cleanText(`the risk of ${called} was accepted for this reason before`));
    else {
      output.line(
        cleanText(
          dryRun
            ? `the risk of ${called} would be accepted; nothing is changed`
            : `accepted the risk of ${called}: whether it happened stays unknown`,
        ),
      );
      output.line(`  ${settles}`);
    }
    return EXIT.done;
  });
}

async function runMany(output: Output, flags: AcceptRiskFlags & GlobalFlags, from: string): Promise<ExitCode> {
  const { match, reason } = flags;
  const { listed } = await readList(from, match);
  const said = listed.find(({ as }) => as !== null);
  if (said) {
    throw new LedgerError("list_invalid", `line ${said.line}: it says that the effect is ${said.as}`, {
      hint: "what is known is resolved: pg-effects resolve; nothing was done",
    });
  }
  return withAudit(flags, (connected) =>
    watching((signal) =>
      actOnList(connected, output, listed, {
        match,
        dryRun: flags.dryRun === true,
        signal,
        done: () => "its risk accepted",
        statement: (effectId) => ({ text: ACCEPT_RISK, values: [effectId, reason] }),
        stands: ({ says, risk_accepted }) => says === null && risk_accepted,
      }),
    ),
  );
}
