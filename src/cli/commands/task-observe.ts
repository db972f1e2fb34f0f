/** `task observe`: who may look at a task that is not its own. */
import type { Command } from "commander";
import { cleanText } from "../../core/text.ts";
import { runChange } from "../../store/control.ts";
import { LET_OBSERVE, REVOKE_OBSERVER } from "../../store/request.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import type { Output } from "../output.ts";

interface ObserveFlags {
  readonly actor: string;
  readonly reason: string;
  readonly revoke?: true;
}

export function addTaskObserve(task: Command): void {
  const observe = task
    .command("observe")
    .summary("let an actor observe a task that is not its own")
    .description(
      "Let an actor observe the effects of a task and of every task under it. It may request and change nothing there. " +
        "--revoke ends that.",
    )
    .argument("<task>", "its name")
    .requiredOption("--actor <actor>", "who may look: a role, or a registered actor")
    .requiredOption("--reason <reason>", "why, for whoever reads the history: 1 to 500 characters")
    .option("--revoke", "end it")
    .action((name: string, _flags: ObserveFlags, self: Command) =>
      conclude<ObserveFlags>(self, (output, flags) => run(output, flags, name)),
    );
  withExamples(observe, [
    "task observe customers/42 --actor support --reason 'they answer the customer'",
    "task observe customers/42 --actor support --revoke --reason 'answered'",
  ]);
}

async function run(output: Output, flags: ObserveFlags & GlobalFlags, task: string): Promise<ExitCode> {
  const { actor, reason, revoke = false } = flags;
  return withAudit(flags, async ({ connectionString }) => {
    const text = revoke ? REVOKE_OBSERVER : LET_OBSERVE;
    await runChange(connectionString, { text, values: [actor, task, reason], dryRun: false });
    output.document({ task, actor, observes: !revoke });
    output.line(cleanText(`${actor} ${revoke ? "may no longer observe" : "may observe"} task ${task}`));
    return EXIT.done;
  });
}
