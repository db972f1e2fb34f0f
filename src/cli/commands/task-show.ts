/** `task show`: where a task stands, what it may spend, and what became of what was requested under it. */
import type { Command } from "commander";
import { cleanText } from "../../core/text.ts";
import { type Audit, readClock } from "../../store/audit.ts";
import { countStates, readAbove, readBudgets, readTaskPauses } from "../../store/audit-control.ts";
import type { AuditPause, AuditTask } from "../../store/audit-schema.ts";
import { conclude, withExamples } from "../action.ts";
import { budgetLines } from "../budget-table.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { findTask } from "../find-task.ts";
import { formatMoment } from "../moment.ts";
import type { Output } from "../output.ts";
import { tableLines } from "../table.ts";

export function addTaskShow(task: Command): void {
  const show = task
    .command("show")
    .summary("its place, deadline, state, budgets and effects")
    .description(
      "A task's place, actor, deadline and state, its budgets, and its effects by state, with those below it.",
    )
    .argument("<task>", "its name")
    .action((name: string, _flags: object, self: Command) =>
      conclude<object>(self, (output, flags) => run(output, flags, name)),
    );
  withExamples(show, ["task show customers/42"]);
}

async function run(output: Output, flags: GlobalFlags, name: string): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const task = await findTask(audit, name);
    const now = await readClock(audit);
    const state = await stateOf(audit, task, now);
    const budgets = await readBudgets(audit, task.task);
    const effects = await countStates(audit, task);
    output.document({ task, state, budgets, effects });

    output.line(cleanText(task.path));
    const effectWords = effects.map(countWords).join(", ") || "none";
    const facts = tableLines(FACTS, factsOf(task, { state, effects: effectWords }, now));
    for (const line of [...facts, ...budgetLines(budgets, now)]) output.line(`  ${line}`);
    return EXIT.done;
  });
}

type Fact = readonly [what: string, is: string | null];

const FACTS = [
  { title: "", cell: ([what]: Fact) => what },
  { title: "", cell: ([, is]: Fact) => is ?? "" },
];

function factsOf(
  task: AuditTask,
  { state, effects }: { readonly state: string; readonly effects: string },
  now: Date,
): readonly Fact[] {
  const facts: Fact[] = [
    ["id", task.task],
    ["state", state],
    ["actor", task.actor ?? "every actor"],
    ["subject", task.subject],
    ["deadline", task.deadline && formatMoment(task.deadline, now)],
    ["opened", `${formatMoment(task.opened_at, now)} by ${task.opened_by}`],
    ["effects", effects],
  ];
  return facts.filter(([, is]) => is !== null);
}

/** What stands against it, whether it is the task's own or that of one above it. */
async function stateOf(audit: Audit, { task }: AuditTask, now: Date): Promise<string> {
  const above = await readAbove(audit, task);
  const pauses = await readTaskPauses(
    audit,
    above.map(({ name }) => name),
  );
  for (const [place, each] of above.entries()) {
    const against = standing(each, pauses, now);
    if (against !== null) return place === 0 ? against : `${against}, by ${each.name} above it`;
  }
  return "open";
}

function standing(task: AuditTask, pauses: readonly AuditPause[], now: Date): string | null {
  if (task.revoked_at) return `revoked ${formatMoment(task.revoked_at, now)}`;
  if (task.ended_at) return `ended ${formatMoment(task.ended_at, now)}`;
  if (task.deadline && task.deadline <= now) return `past its deadline ${formatMoment(task.deadline, now)}`;
  const pause = pauses.find(({ target }) => target === task.name);
  if (!pause) return null;
  const until = pause.until ? ` until ${formatMoment(pause.until, now)}` : "";
  return `paused${until} by ${pause.paused_by}, ${pause.reason}`;
}

function countWords({ state, unresolved, count }: { state: string; unresolved: boolean; count: bigint }): string {
  return `${count} ${state}${unresolved ? " unresolved" : ""}`;
}
