/**
 * How a command fails, in this process: parsed, run and worded as main.ts does it, without a process for each of many cases.
 * That the program prints it and exits so is tested with the real one (run.ts).
 */
import assert from "node:assert/strict";
import { exitCodeOf } from "../../src/cli/exit-code.ts";
import { wordFailure } from "../../src/cli/failure.ts";
import { createProgram } from "../../src/cli/program.ts";
import { passwordsIn } from "./run.ts";

// Commands that run in this process must not find the developer's own ledger.
delete process.env.DATABASE_URL;
delete process.env.PG_EFFECTS_LEDGER;

export interface Refusal {
  readonly code: string;
  readonly exit: number;
  readonly message: string;
  readonly hint: string;
}

/** Runs a command that is to fail. Every failure says what to do, and none a password. */
export async function refusal(args: readonly string[], database?: string): Promise<Refusal> {
  const all = database === undefined ? args : [...args, "--database", database];
  try {
    await createProgram().parseAsync(all, { from: "user" });
  } catch (thrown) {
    const failure = wordFailure(thrown);
    assert.notEqual(failure.hint, "", `${failure.code} says what to do`);
    for (const secret of passwordsIn(all)) assert.ok(!`${failure.message}${failure.hint}`.includes(secret), args[0]);
    return { ...failure, exit: exitCodeOf(failure.code) };
  }
  assert.fail(`${args.join(" ")} did not fail`);
}
