/** `task open`, `task end` and `task revoke`. `task show` and `task observe` have files of their own. */
import type { Command } from "commander";
import { LedgerError } from "../../core/error.ts";
import { runChange } from "../../store/control.ts";
import { END_TASK, OPEN_ROOT_TASK, OPEN_TASK, REVOKE_TASK } from "../../store/request.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, change, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { parseMoment } from "../moment.ts";
import type { Output } from "../output.ts";
import { parseUnitDigits, type UnitDigits } from "../unit-digits.ts";
import { addTaskObserve } from "./task-observe.ts";
import { addTaskShow } from "./task-show.ts";

interface OpenFlags {
  readonly parent?: string;
  readonly root?: true;
  readonly reason?: string;
  readonly actor?: string;
  readonly subject?: string;
  readonly deadline?: string;
  readonly budget: readonly UnitDigits[];
}

export function addTask(program: Command): void {
  const task = program
    .command("task")
    .helpCommand(false)
    .summary("tasks: show, open, end, revoke, observe")
    .description("Tasks: under which effects are requested, with deadlines and budgets that bind all below them.");
  withExamples(task, ["task show customers/42", "task revoke agents/7 --reason 'its key leaked' --dry-run"]);
  addTaskShow(task);
  addOpen(task);
  addEnd(task);
  addRevoke(task);
  addTaskObserve(task);
}

function addOpen(task: Command): void {
  const open = task
    .command("open")
    .summary("open a task, or find the one of this name")
    .description(
      "Open a task and print its id. The same name is the same task, left as it stands. With --root it stands under none, " +
        "and is every registered actor's unless --actor names one: the owner opens it, with a --reason.",
    )
    .argument("<task>", "its name, 1 to 200 characters")
    .option("--parent <task>", "the task that it stands under (default: default)")
    .option("--root", "it stands under none")
    .option("--reason <reason>", "why there is a new root: 1 to 500 characters")
    .option("--actor <actor>", "a registered actor, whose task it is (default: your own)")
    .option("--subject <subject>", "whom it is about: customer:42")
    .option("--deadline <moment>", "nothing is admitted after: 2026-11-30T02:00Z, 02:00, or 2h for in two hours")
    .option(
      "--budget <unit=digits>",
      "a limit: usd_cents=10000; once for each unit",
      (text, earlier: readonly UnitDigits[]) => [...earlier, parseUnitDigits(text)],
      [] as readonly UnitDigits[],
    )
    .action((name: string, _flags: OpenFlags, self: Command) =>
      conclude<OpenFlags>(self, (output, flags) => runOpen(output, flags, name)),
    );
  withExamples(open, [
    "task open customers/42 --subject customer:42 --budget usd_cents=10000 --deadline 24h",
    "task open payments --root --budget usd_cents=1000000 --reason 'the payments team'",
  ]);
}

function addEnd(task: Command): void {
  const end = task
    .command("end")
    .summary("end a task of your own")
    .description(
      "End a task of your own and everything under it: nothing more is admitted there. There is no way back.",
    )
    .argument("<task>", "its name")
    .action((name: string, _flags: object, self: Command) =>
      conclude<object>(self, (output, flags) => runEnd(output, flags, name)),
    );
  withExamples(end, ["task end customers/42"]);
}

function addRevoke(task: Command): void {
  const revoke = task
    .command("revoke")
    .summary("take a task's authority away")
    .description(
      "Take a task's authority away, with everything under it. There is no way back. What waits there is declined; what " +
        "is in flight is beyond recall, and is listed.",
    )
    .argument("<task>", "its name")
    .action((name: string, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) =>
        change(output, flags, {
          text: REVOKE_TASK,
          values: [name, flags.reason],
          done: `revoked task ${name}`,
          wouldBe: `task ${name} would be revoked, for good`,
          whatWaits: "declined as revoked",
        }),
      ),
    );
  withChangeOptions(revoke);
  withExamples(revoke, ["task revoke agents/7 --reason 'its key leaked' --dry-run"]);
}

async function runOpen(output: Output, flags: OpenFlags & GlobalFlags, name: string): Promise<ExitCode> {
  const { parent, root, reason, actor = null, subject = null, budget } = flags;
  if (root ? parent !== undefined || reason === undefined : reason !== undefined) {
    throw new LedgerError("usage_invalid", "a root takes a --reason and no --parent, and only a root takes a reason", {
      hint: "say --root --reason WHY, or leave both out",
    });
  }
  const deadline = flags.deadline === undefined ? null : parseMoment(flags.deadline, "future");
  const rest = [subject, actor, deadline, JSON.stringify(budget)];
  return withAudit(flags, async ({ connectionString }) => {
    const { task_id } = await runChange<{ task_id: string }>(connectionString, {
      ...(root
        ? { text: OPEN_ROOT_TASK, values: [name, reason, ...rest] }
        : { text: OPEN_TASK, values: [name, parent ?? "default", ...rest] }),
      dryRun: false,
    });
    output.document({ task_id, task: name });
    output.line(task_id);
    return EXIT.done;
  });
}

async function runEnd(output: Output, flags: GlobalFlags, name: string): Promise<ExitCode> {
  return withAudit(flags, async ({ connectionString }) => {
    await runChange(connectionString, { text: END_TASK, values: [name], dryRun: false });
    output.document({ task: name, ended: true });
    output.line(`ended task ${name}: what waits under it is declined`);
    return EXIT.done;
  });
}
