/** `pause` and `resume`: sending stops for a scope while requests are still taken, and goes on. */
import type { Command } from "commander";
import { pauseStatement, resumeStatement, scopeOf } from "../../request/control.ts";
import { readClock } from "../../store/audit.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, change, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { parseAge } from "../duration.ts";
import type { ExitCode } from "../exit-code.ts";
import { formatMoment } from "../moment.ts";
import type { Output } from "../output.ts";

interface ScopeFlags extends ChangeFlags {
  readonly operation?: string;
  readonly task?: string;
  readonly targetPrefix?: string;
  readonly all?: true;
}
interface PauseFlags extends ScopeFlags {
  readonly for?: number;
}

export function addPause(program: Command): void {
  const pause = withScopes(
    program
      .command("pause")
      .summary("stop sending for a scope; requests are still taken")
      .description(
        "Stop admission for an operation, a task with everything under it, a beginning of targets, or everything. " +
          "Requests are still taken, and wait. It prints what waits and what is out already.",
      ),
  ).option("--for <duration>", "it ends by itself after so long: 30m, 2h; default: when it is resumed", parseAge);
  withChangeOptions(pause).action((_flags: PauseFlags, self: Command) => conclude<PauseFlags>(self, runPause));
  withExamples(pause, [
    "pause --operation charge_card --reason INC-91 --for 1h",
    "pause --target-prefix https://api.example.com/ --reason INC-91 --dry-run",
  ]);
}

export function addResume(program: Command): void {
  const resume = withScopes(
    program
      .command("resume")
      .summary("end a pause")
      .description("End a pause, named as it was made. What waited is looked at again at once."),
  );
  withChangeOptions(resume).action((_flags: ScopeFlags, self: Command) => conclude<ScopeFlags>(self, runResume));
  withExamples(resume, ["resume --operation charge_card --reason 'INC-91 is over'"]);
}

function withScopes(command: Command): Command {
  return command
    .option("--operation <name>", "every version of this operation")
    .option("--task <name>", "this task and everything under it")
    .option("--target-prefix <text>", "every target that begins so")
    .option("--all", "everything");
}

async function runPause(output: Output, flags: PauseFlags & GlobalFlags): Promise<ExitCode> {
  const what = scopeWords(flags);
  // By the database's clock, which is the one that ends it.
  const now = flags.for === undefined ? undefined : await withAudit(flags, ({ audit }) => readClock(audit));
  const until = now && new Date(now.getTime() + (flags.for ?? 0));
  const for_ = now && until ? ` until ${formatMoment(until, now)}` : "";
  return change(output, flags, {
    ...pauseStatement({ ...flags, ...(until ? { until } : {}) }),
    done: `paused ${what}${for_}`,
    wouldBe: `${what} would be paused${for_}`,
    whatWaits: "kept until it is resumed",
  });
}

async function runResume(output: Output, flags: ScopeFlags & GlobalFlags): Promise<ExitCode> {
  const what = scopeWords(flags);
  return change(output, flags, {
    ...resumeStatement(flags),
    done: `resumed ${what}`,
    wouldBe: `${what} would go on`,
    whatWaits: "looked at again at once",
  });
}

/** @throws LedgerError `scope_invalid`, before any server is asked */
function scopeWords(flags: ScopeFlags): string {
  const [scope, target] = scopeOf(flags);
  if (scope === "all") return "everything";
  return scope === "target" ? `targets that begin with ${target}` : `${scope} ${target}`;
}
