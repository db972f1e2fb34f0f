#!/usr/bin/env node
/** The program: parses, runs, reports what failed, and ends with a documented exit code. Nothing imports it. */
import { CommanderError } from "commander";
import { EXIT } from "./exit-code.ts";
import { reportFailure } from "./failure.ts";
import { createProgram } from "./program.ts";

const arguments_ = process.argv.slice(2);
const options = {
  json: arguments_.includes("--json"),
  debug: arguments_.includes("--debug") || process.env.PG_EFFECTS_DEBUG === "1",
};

/** Ends the process when what it printed has been taken: adapters may leave timers and sockets behind. */
function end(code: number): void {
  process.stdout.write("", () => process.exit(code));
}

// Whoever reads us went away (`| head`): there is nobody left to tell.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  process.exit(error.code === "EPIPE" ? EXIT.done : EXIT.fault);
});
process.on("uncaughtException", (thrown) => end(reportFailure(thrown, options)));

const program = createProgram();
try {
  if (arguments_.length === 0) {
    process.stderr.write(program.helpInformation());
    throw new CommanderError(EXIT.usage, "usage", "no command was given");
  }
  await program.parseAsync(process.argv);
  end(Number(process.exitCode ?? EXIT.done));
} catch (thrown) {
  end(reportFailure(thrown, options));
}
