/** `evidence submit`: what a registered source says about an effect, from outside. */
import { type Command, Option } from "commander";
import { LedgerError } from "../../core/error.ts";
import { cleanText } from "../../core/text.ts";
import { runChange } from "../../store/control.ts";
import { SUBMIT_EVIDENCE } from "../../store/resolution.ts";
import { conclude, withExamples } from "../action.ts";
import { type Connected, type GlobalFlags, withAudit } from "../connection.ts";
import { EVIDENCE_HELP, readEvidence } from "../evidence-option.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { findEffect } from "../find-effect.ts";
import type { Output } from "../output.ts";
import { type Cost, collectCost } from "../unit-digits.ts";

const SUBMITTED = ["accepted", "failed", "no_effect", "cost"] as const;

interface SubmitFlags {
  readonly source: string;
  readonly key?: string;
  readonly reference?: string;
  readonly effect?: string;
  readonly says: (typeof SUBMITTED)[number];
  readonly evidence: string;
  readonly cost?: Cost;
  readonly dryRun?: true;
}

type Answer = "resolved" | "after_risk" | "agrees" | "contradicts" | "kept" | "charged" | "same";

const EXAMPLES = [
  "evidence submit --source bank --key 6b1f0c2d9e8a47d5b3c1a09f8e7d6c5b --says accepted --evidence statement.pdf",
  "evidence submit --source bank --reference ch_123 --says cost --cost usd_cents=4200 --evidence '{\"invoice\": 9}'",
];

export function addEvidence(program: Command): void {
  const evidence = program
    .command("evidence")
    .helpCommand(false)
    .summary("submit what a source says about an effect")
    .description("Evidence from outside: what registered sources say about effects (source add).");
  withExamples(evidence, EXAMPLES);
  const submit = evidence
    .command("submit")
    .summary("submit what a source says about an effect")
    .description(
      "Submit what a source says about an effect. It is kept for good. The word of an authoritative source settles what is " +
        "open; evidence may contradict what is recorded, and changes nothing then; evidence of cost beyond what is settled is " +
        "charged as overrun. The same again is the same. Exit code 3 where it is kept and the effect is unresolved.",
    )
    .requiredOption("--source <name>", "whose word it is")
    .option("--key <key>", "the effect's key, which the recipient knows")
    .option("--effect <effect>", "the effect: its id; a login that reads audit may give its name or short id")
    .option(
      "--reference <reference>",
      "the recipient's own id: names the effect by itself, or is kept beside --key or --effect",
    )
    .addOption(new Option("--says <what>", "what it says").choices(SUBMITTED).makeOptionMandatory())
    .requiredOption("--evidence <file|json>", EVIDENCE_HELP)
    .option("--cost <unit=amount>", "with --says cost: the whole cost of a unit; may be given again", collectCost)
    .option("--dry-run", "say what it would do, and change nothing")
    .action((_flags: SubmitFlags, self: Command) => conclude<SubmitFlags>(self, run));
  withExamples(submit, EXAMPLES);
}

async function run(output: Output, flags: SubmitFlags & GlobalFlags): Promise<ExitCode> {
  const { source, key, reference = null, says } = flags;
  const named = [key, flags.effect].filter((each) => each !== undefined).length;
  if (named > 1 || (named === 0 && reference === null)) {
    throw new LedgerError("usage_invalid", `${named > 1 ? "two effects are" : "no effect is"} named`, {
      hint: "give --key, --effect or --reference",
    });
  }
  const evidence = evidenceText(await readEvidence(flags.evidence), flags);
  return withAudit(flags, async (connected) => {
    const dryRun = flags.dryRun === true;
    const effectId = flags.effect === undefined ? null : await idOf(connected, flags.effect);
    const values = [source, key?.toLowerCase() ?? null, reference, effectId, says, evidence];
    const { answer } = await runChange<{ answer: Answer }>(connected.connectionString, {
      text: SUBMIT_EVIDENCE,
      values,
      dryRun,
    });
    const called = flags.effect ?? key ?? reference ?? "";
    output.document({ dry_run: dryRun, source, says, answer, effect_id: effectId, key: key ?? null, reference });
    output.line(cleanText(`${called}  ${source} says ${says}: ${ANSWERS[answer]}`));
    if (dryRun) output.note("a dry run: nothing is changed");
    return answer === "kept" && says !== "cost" && (await isUnresolved(connected, called))
      ? EXIT.unresolved
      : EXIT.done;
  });
}

/** Evidence of cost has the cost in it. The rest goes in as it is: whatever JSON cannot carry is the ledger's to refuse. */
function evidenceText(text: string, { says, cost }: SubmitFlags): string {
  if (cost === undefined) return text;
  if (says === "cost") return `{"cost":${JSON.stringify(cost)},"evidence":${text}}`;
  throw new LedgerError("usage_invalid", `--cost beside --says ${says}`, {
    hint: "submit the cost by itself: --says cost; what a person resolves has --cost",
  });
}

const ANSWERS: Readonly<Record<Answer, string>> = {
  resolved: "it was open, and is resolved so",
  after_risk: "its risk had been accepted; resolved so beside that, and no sum changes",
  agrees: "what is recorded agrees",
  contradicts: "it contradicts what is recorded, which stays; see audit.contradictions",
  kept: "kept for people; it settles nothing",
  charged: "what is beyond the settled cost is charged as overrun",
  same: "it was submitted before",
};

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** A whole id needs no look, which a webhook's login may not have. */
async function idOf({ audit, audits }: Connected, given: string): Promise<string> {
  if (UUID.test(given)) return given.toLowerCase();
  if (audits) return (await findEffect(audit, given)).effect_id;
  throw new LedgerError("usage_invalid", `${JSON.stringify(given)} is no effect's id`, {
    hint: "this login reads no audit: give the whole id, or --key",
  });
}

async function isUnresolved({ audit, audits }: Connected, called: string): Promise<boolean> {
  return audits && (await findEffect(audit, called)).unresolved;
}
