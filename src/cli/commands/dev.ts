/** `dev`: a Postgres of its own, a ledger named dev and a worker, in one process that Ctrl-C ends. */
import type { Command } from "commander";
import { conclude, withExamples } from "../action.ts";
import { refuseDatabase } from "../connection.ts";
import { wholeNumber } from "../number.ts";
import type { DevFlags } from "../run-dev.ts";

export function addDev(program: Command): void {
  const command = program
    .command("dev")
    .summary("a Postgres of its own, a ledger and a worker, until Ctrl-C")
    .description(
      "A Postgres of its own on loopback, the ledger `dev` in it, and a worker, until Ctrl-C. What is recorded stays in " +
        "the folder. For trying and developing: for anything that matters, give the other commands a server of yours.",
    )
    .option("--folder <dir>", "where the data stays", ".pg-effects")
    .option("--port <n>", "the server's port (default: any free one)", wholeNumber(1, 65_535))
    .option("--tasks <dir>", "the folder of operations, one file each", "tasks")
    .action((_flags: DevFlags, self: Command) =>
      conclude<DevFlags>(self, async (output, flags) => {
        refuseDatabase(self);
        const { runDev } = await import("../run-dev.ts"); // it brings a server and the queue with it
        return runDev(output, flags);
      }),
    );
  withExamples(command, ["dev", "dev --tasks operations --port 5433"]);
}
