/** `operation list` and `operation withdraw`: what can be requested, and what is never admitted any more. */
import type { Command } from "commander";
import { readClock } from "../../store/audit.ts";
import { listOperations, type OperationLine } from "../../store/audit-control.ts";
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

const EXAMPLES = ["operation list", "operation withdraw charge_card 1 --reason 'charges twice, INC-91'"];

/** A Postgres integer. */
const VERSION_MAX = 2_147_483_647;

/** Far above what one ledger has. */
const LIST_MAX = 1_000;

export function addOperation(program: Command): void {
  const operation = program
    .command("operation")
    .helpCommand(false)
    .summary("operations: list them, withdraw a version")
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
  addNotBuiltUnder(operation, ["allow", "protect", "set"]);
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
        { title: "standing", cell: (operation) => standingOf(operation, now) },
      ],
      operations,
    );
    for (const line of lines) output.line(line);
    if (operations.length === 0) output.note("no operation is registered: start a worker, it registers what it runs");
    return EXIT.done;
  });
}

function standingOf(operation: OperationLine, now: Date): string {
  const { withdrawn_at, paused_at, allowed_at, allowed_by } = operation;
  const words = [
    withdrawn_at && `withdrawn ${formatMoment(withdrawn_at, now)}`,
    paused_at && `paused ${formatMoment(paused_at, now)}`,
    operation.protected ? "protected" : "unprotected",
    allowed_at && `allowed ${formatMoment(allowed_at, now)} by ${allowed_by}`,
  ];
  return words.filter(Boolean).join(", ");
}
