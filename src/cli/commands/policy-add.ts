/** `policy add`: lets a bounded class of a protected operation's effects be admitted. */
import type { Command } from "commander";
import { LedgerError } from "../../core/error.ts";
import { cleanText } from "../../core/text.ts";
import type { PolicyRules } from "../../core/wanted-authority.ts";
import { policyValues } from "../../request/authority.ts";
import { ADD_POLICY } from "../../store/authority.ts";
import { runChange } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { parseAge } from "../duration.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { parseMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { parseUnitDigits, type UnitDigits } from "../unit-digits.ts";
import { VERSION_MAX } from "./operation-protect.ts";

interface AddFlags {
  readonly operation: string;
  readonly operationVersion: number;
  readonly task?: string;
  readonly actor?: string;
  readonly target?: string;
  readonly targetPrefix?: string;
  readonly cost: readonly UnitDigits[];
  readonly admissions?: number;
  readonly open?: number;
  readonly approvals?: number;
  readonly approver: readonly string[];
  readonly allowRequester?: true;
  readonly preconditionEnforced?: true;
  readonly preparedWithin?: number;
  readonly expires?: string;
  readonly reason: string;
}

/** What an option of digits holds without loss. */
const COUNT_MAX = Number.MAX_SAFE_INTEGER;

/** As the ledger bounds it (migrations/0002_authority.sql). */
const APPROVALS_MAX = 16;

export function addPolicyAdd(policy: Command): void {
  const add = policy
    .command("add")
    .summary("let a bounded class of effects be admitted")
    .description(
      "Add a policy. It covers effects of one version of an operation, under a task and everything below it, with these " +
        "targets and at most this cost each; a unit that is not named may cost nothing. Without --approvals it is automatic. Where " +
        "several cover an effect, one that wants approval goes before one that does not, then the narrower.",
    )
    .argument("<policy>", "its name, 1 to 200 characters, never used before")
    .requiredOption("--operation <operation>", "the operation whose effects it covers")
    .requiredOption("--operation-version <n>", "which version of it", wholeNumber(1, VERSION_MAX))
    .option("--task <task>", "under this task and everything below it (default: default)")
    .option("--actor <actor>", "only this actor's (default: any)")
    .option("--target <target>", "only this very target (default: any)")
    .option("--target-prefix <text>", "only targets that begin so; it ends at the contract's targetDelimiter")
    .option("--cost <unit=digits>", "what one effect may cost at most: usd_cents=4000; once for each unit", costs, [])
    .option("--admissions <n>", "so many admissions in all (default: any number)", wholeNumber(1, COUNT_MAX))
    .option("--open <n>", "so many in flight or in doubt at once (default: any number)", wholeNumber(1, COUNT_MAX))
    .option("--approvals <n>", "so many of the named approvers must agree (default: 0)", wholeNumber(0, APPROVALS_MAX))
    .option("--approver <name>", "who may approve; once for each", names, [])
    .option("--allow-requester", "whoever asked for an effect may approve it, too")
    .option("--precondition-enforced", "each effect wants a precondition that its recipient enforces")
    .option("--prepared-within <duration>", "an older binding is prepared again before admission: 10m", parseAge)
    .option("--expires <moment>", "nothing is admitted under it after: 2026-11-30T02:00Z, or 30d for in thirty days")
    .requiredOption("--reason <reason>", "why, for whoever reads the history: 1 to 500 characters")
    .action((name: string, _flags: AddFlags, self: Command) =>
      conclude<AddFlags>(self, (output, flags) => runAdd(output, flags, name)),
    );
  withExamples(add, [
    "policy add routine --operation charge_card --operation-version 1 --task shop --cost usd_cents=4000 --open 20 --reason routine",
    "policy add refunds --operation refund_card --operation-version 1 --task shop --cost usd_cents=90000 --approvals 1 --approver ana --reason 'ana looks'",
  ]);
}

async function runAdd(output: Output, flags: AddFlags & GlobalFlags, name: string): Promise<ExitCode> {
  if (flags.target !== undefined && flags.targetPrefix !== undefined) {
    throw new LedgerError("usage_invalid", "--target and --target-prefix are both given", { hint: "give one of them" });
  }
  const rules: PolicyRules = {
    operation: flags.operation,
    version: flags.operationVersion,
    task: flags.task ?? "default",
    actor: flags.actor ?? null,
    target: flags.target ?? flags.targetPrefix ?? null,
    target_match: flags.targetPrefix === undefined ? "exact" : "prefix",
    costs: costsOf(flags.cost),
    admissions_max: flags.admissions?.toString() ?? null,
    open_max: flags.open?.toString() ?? null,
    approvals_needed: flags.approvals ?? 0,
    approvers: flags.approver,
    requester_excluded: flags.allowRequester !== true,
    precondition_enforced: flags.preconditionEnforced === true,
    prepared_within_ms: flags.preparedWithin ?? null,
    expires_at: flags.expires === undefined ? null : parseMoment(flags.expires, "future"),
  };
  const values = policyValues(name, rules, flags.reason);
  return withAudit(flags, async ({ connectionString }) => {
    const { policy_id } = await runChange<{ policy_id: string }>(connectionString, {
      text: ADD_POLICY,
      values,
      dryRun: false,
    });
    output.document({ policy_id, policy: name });
    output.line(cleanText(`added policy ${name}`));
    return EXIT.done;
  });
}

/** @throws LedgerError `usage_invalid` for a unit that is named twice */
function costsOf(costs: readonly UnitDigits[]): Readonly<Record<string, string>> {
  const twice = costs.find(({ unit }, place) => costs.findIndex((other) => other.unit === unit) !== place);
  if (twice)
    throw new LedgerError("usage_invalid", `the cost in ${twice.unit} is given twice`, { hint: "give it once" });
  return Object.fromEntries(costs.map(({ unit, limit }) => [unit, limit]));
}

function costs(text: string, earlier: readonly UnitDigits[]): readonly UnitDigits[] {
  return [...earlier, parseUnitDigits(text)];
}

function names(text: string, earlier: readonly string[]): readonly string[] {
  return [...earlier, text];
}
