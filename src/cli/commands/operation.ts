/**
 * `operation list` and `operation withdraw`: what can be requested, and what is never admitted any more. `operation allow` and
 * `operation protect` have a file of their own.
 */
import type { Command } from "commander";
import { readClock } from "../../store/audit.ts";
import { listOperations, type OperationLine } from "../../store/audit-control.ts";
import { readLedgerRules } from "../../store/audit-policy.ts";
import { WITHDRAW_OPERATION } from "../../store/request.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, change, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { formatMoment } from "../moment.ts";
import { addNotBuiltUnder } from "../not-built.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { tableLines } from "../table.ts";
import { addOperationAllow, addOperationProtect, VERSION_MAX } from "./operation-protect.ts";

const EXAMPLES = ["operation list", "operation withdraw charge_card 1 --reason 'charges twice, INC-91'"];

/** Implementations are recognised by their first digits; `--json` has them whole. */
const DIGEST_DIGITS = 12;

/** Far above what one ledger has. */
const LIST_MAX = 1_000;

export function addOperation(program: Command): void {
  const operation = program
    .command("operation")
    .helpCommand(false)
    .summary("operations: list, allow, protect, withdraw")
    .description("Operations, as workers registered them.");
  withExamples(operation, EXAMPLES);
  const list = operation
    .command("list")
    .summary("every registered version")
    .description("Every registered version of every operation, and what was decided about it.")
    .action((_flags: object, self: Command) => conclude<object>(self, runList));
  // An argument and not --version, which the program itself takes wherever it stands.
  const withdraw = operation
    .command("withdraw")
    .summary("never admit a version any more")
    .description(
      "Withdraw one version: no effect of it is admitted any more, and there is no way back. What it has waiting is " +
        "declined. To stop for a while, pause the operation.",
    )
    .argument("<operation>", "its name")
    .argument("<version>", "the version, as `operation list` shows it", wholeNumber(1, VERSION_MAX))
    .action((name: string, version: number, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) =>
        change(output, flags, {
          text: WITHDRAW_OPERATION,
          values: [name, version, flags.reason],
          done: `withdrew operation ${name} ${version}`,
          wouldBe: `operation ${name} ${version} would be withdrawn, for good`,
          whatWaits: `of every version of ${name}; those of version ${version} are declined as revoked`,
        }),
      ),
    );
  withChangeOptions(withdraw);
  withExamples(list, EXAMPLES.slice(0, 1));
  withExamples(withdraw, EXAMPLES.slice(1));
  addOperationAllow(operation);
  addOperationProtect(operation);
  addNotBuiltUnder(operation, ["set"]);
}

async function runList(output: Output, flags: GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const operations = await listOperations(audit, LIST_MAX);
    const now = await readClock(audit);
    output.document(operations);
    const lines = tableLines(
      [
        { title: "operation", cell: ({ operation, version }) => `${operation} ${version}` },
        { title: "registered", cell: ({ registered_at }) => formatMoment(registered_at, now) },
        { title: "release", cell: ({ release }) => release },
        { title: "implementation", cell: ({ implementation }) => implementation.slice(0, DIGEST_DIGITS) },
        { title: "standing", cell: (operation) => standingOf(operation, now) },
      ],
      operations,
    );
    for (const line of lines) output.line(line);
    if ((await readLedgerRules(audit)).strict) output.note("the ledger is strict: every operation is protected");
    if (operations.length === 0) output.note("no operation is registered: start a worker, it registers what it runs");
    return EXIT.done;
  });
}

function standingOf(operation: OperationLine, now: Date): string {
  const { withdrawn_at, paused_at, allowed_at, allowed_by, allowed_implementation, implementation } = operation;
  const allowed = allowed_at && `allowed ${formatMoment(allowed_at, now)} by ${allowed_by}`;
  const words = [
    withdrawn_at && `withdrawn ${formatMoment(withdrawn_at, now)}`,
    paused_at && `paused ${formatMoment(paused_at, now)}`,
    operation.protected ? "protected" : "unprotected",
    allowed === null && operation.protected && "not allowed",
    allowed && (allowed_implementation === implementation ? allowed : `${allowed}: ${another(allowed_implementation)}`),
  ];
  return words.filter(Boolean).join(", ");
}

/** What is registered is not what the owner allowed: a deploy that nobody has reviewed yet. */
function another(allowed: string | null): string {
  return `implementation ${allowed?.slice(0, DIGEST_DIGITS)}, not the one registered now`;
}
