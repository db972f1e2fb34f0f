/** `budget show` and `budget set`: what a task may still spend, and how that is changed. */
import type { Command } from "commander";
import { cleanText } from "../../core/text.ts";
import { readClock } from "../../store/audit.ts";
import { readBudgets } from "../../store/audit-control.ts";
import { type BudgetRow, runChange } from "../../store/control.ts";
import { SET_BUDGET } from "../../store/request.ts";
import { conclude, withExamples } from "../action.ts";
import { budgetLines } from "../budget-table.ts";
import { type ChangeFlags, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { findTask } from "../find-task.ts";
import type { Output } from "../output.ts";
import { parseUnitDigits, type UnitDigits } from "../unit-digits.ts";

const EXAMPLES = ["budget show customers/42", "budget set customers/42 usd_cents=20000 --reason 'ana agreed'"];

export function addBudget(program: Command): void {
  const budget = program
    .command("budget")
    .helpCommand(false)
    .summary("what a task may still spend")
    .description("Budgets: what a task, with everything under it, may spend in each unit.");
  const show = budget
    .command("show")
    .summary("limits, what is reserved, in doubt, spent and left")
    .description("A task's own budgets. The tasks above it have theirs, which bind it too.")
    .argument("<task>", "the task's name")
    .action((task: string, _flags: object, self: Command) =>
      conclude<object>(self, (output, flags) => runShow(output, flags, task)),
    );
  const set = budget
    .command("set")
    .summary("set a task's limit in a unit")
    .description(
      "Set a task's limit. A lower one is never refused: what is reserved and spent stays, and nothing more is admitted " +
        "until there is room. What waits is looked at again at once.",
    )
    .argument("<task>", "the task's name")
    .argument("<unit=digits>", "the unit and its limit: usd_cents=20000", parseUnitDigits)
    .action((task: string, limit: UnitDigits, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) => runSet(output, flags, task, limit)),
    );
  withChangeOptions(set);
  withExamples(budget, EXAMPLES);
  withExamples(show, EXAMPLES.slice(0, 1));
  withExamples(set, EXAMPLES.slice(1));
}

async function runShow(output: Output, flags: GlobalFlags, name: string): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const { task, path } = await findTask(audit, name);
    const budgets = await readBudgets(audit, task);
    output.document({ task: name, path, budgets });
    output.line(cleanText(path));
    for (const line of budgetLines(budgets, await readClock(audit))) output.line(`  ${line}`);
    if (budgets.length === 0) output.note("it has no budget of its own: only those of the tasks above it bind it");
    return EXIT.done;
  });
}

async function runSet(
  output: Output,
  flags: ChangeFlags & GlobalFlags,
  task: string,
  { unit, limit }: UnitDigits,
): Promise<ExitCode> {
  return withAudit(flags, async ({ connectionString }) => {
    const dryRun = flags.dryRun === true;
    const { result } = await runChange<{ result: BudgetRow }>(connectionString, {
      text: SET_BUDGET,
      values: [task, unit, limit, flags.reason],
      dryRun,
    });
    output.document({ dry_run: dryRun, ...result });
    const what = `${unit} of task ${task}`;
    output.line(cleanText(dryRun ? `${what} would be set; nothing is changed` : `set ${what}`));
    const { reserved, spent, overrun, left } = result;
    output.line(`  limit ${result.limit}, reserved ${reserved}, spent ${spent}, overrun ${overrun}, left ${left}`);
    if (BigInt(left) < 0n) output.note(`${left} left: nothing more is admitted in it until there is room`);
    return EXIT.done;
  });
}
