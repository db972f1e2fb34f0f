/** What all commands share: their options that come from the whole command line, their output, and their exit code. */
import type { Command, OptionValues } from "commander";
import type { GlobalFlags } from "./connection.ts";
import type { ExitCode } from "./exit-code.ts";
import { Output } from "./output.ts";

/** Runs a command's body with its own and the global options; what it returns becomes the exit code. */
export async function conclude<Flags extends OptionValues>(
  command: Command,
  body: (output: Output, flags: Flags & GlobalFlags) => Promise<ExitCode>,
): Promise<void> {
  const flags = command.optsWithGlobals<Flags & GlobalFlags>();
  process.exitCode = await body(new Output(flags.json === true), flags);
}

/** Adds examples to a command's help. */
export function withExamples(command: Command, examples: readonly string[]): Command {
  const lines = examples.map((example) => `  pg-effects ${example}`);
  return command.addHelpText("after", `\nExample${examples.length > 1 ? "s" : ""}:\n${lines.join("\n")}`);
}
