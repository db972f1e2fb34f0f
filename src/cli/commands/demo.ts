/** `demo`: the whole life of an effect on this machine, with recipients of our own that fail on purpose. */
import type { Command } from "commander";
import { conclude, withExamples } from "../action.ts";
import { refuseDatabase } from "../connection.ts";
import type { ExitCode } from "../exit-code.ts";

interface DemoFlags {
  readonly keep?: true;
}

type RunDemo = (options: { readonly keep: boolean; readonly json: boolean }) => Promise<number>;

export function addDemo(program: Command): void {
  const command = program
    .command("demo")
    .summary("what happens when a reply is lost, on this machine only")
    .description(
      "Show what happens when a reply is lost, on a Postgres and recipients of its own. Nothing leaves this machine.",
    )
    .option("--keep", "leave the ledger there afterwards, to look at")
    .action((_flags: DemoFlags, self: Command) =>
      conclude<DemoFlags>(self, async (output, { keep }) => {
        refuseDatabase(self);
        const { runDemo } = (await import("../../demo/demo.ts")) as { runDemo: RunDemo };
        return (await runDemo({ keep: keep === true, json: output.json })) as ExitCode;
      }),
    );
  withExamples(command, ["demo", "demo --keep"]);
}
