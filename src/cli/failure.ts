/**
 * How a command fails: one `code  message` line and what to do, or with --json one object on stdout, where whoever reads
 * the result looks first. No stack trace unless it is asked for, no password ever.
 */
import { CommanderError } from "commander";
import { LedgerError } from "../core/error.ts";
import { cleanText, describeThrown } from "../core/text.ts";
import { driverCode, wordConnectionError } from "../store/connection.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./exit-code.ts";
import { toJson } from "./output.ts";
import { strikeOutPasswords } from "./passwords.ts";

export interface FailureOptions {
  readonly json: boolean;
  /** Prints the stack too: --debug, or PG_EFFECTS_DEBUG=1. */
  readonly debug: boolean;
}

/** Several effects go by one name: the candidates travel with the refusal. */
export class AmbiguousError extends LedgerError {
  readonly candidates: readonly object[];

  constructor(message: string, hint: string, candidates: readonly object[]) {
    super("effect_ambiguous", message, { hint });
    this.candidates = candidates;
  }
}

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/** Prints a failure and returns the exit code for it. */
export function reportFailure(thrown: unknown, { json, debug }: FailureOptions): ExitCode {
  if (thrown instanceof CommanderError && thrown.exitCode === 0) return EXIT.done; // --help and --version were printed
  const failure = wordFailure(thrown);
  const stack = debug ? strikeOutPasswords(stackOf(thrown)) : undefined;
  if (json) {
    const candidates = thrown instanceof AmbiguousError ? { candidates: thrown.candidates } : {};
    process.stdout.write(`${toJson({ error: { ...failure, ...candidates, ...(stack ? { stack } : {}) } })}\n`);
  } else {
    process.stderr.write(`${failure.code}  ${failure.message}\n${failure.hint ? `  ${failure.hint}\n` : ""}`);
    if (stack) process.stderr.write(`${stack}\n`);
  }
  return exitCodeOf(failure.code);
}

/** A failure in this project's words: a stable code, what happened, what to do. Without passwords. */
export function wordFailure(thrown: unknown): Failure {
  const worded = wordConnectionError(thrown);
  const clean = (text: string) => strikeOutPasswords(cleanText(text));
  if (worded instanceof CommanderError) {
    // A command that only gathers others was given none of them; its help was printed.
    const said = worded.code === "commander.help" ? "no command was given" : worded.message;
    const [message = "", ...rest] = said.replace(/^error: /, "").split("\n");
    const hint = rest.map((line) => line.replace(/^\((.*)\)$/, "$1")).join(" ");
    return { code: "usage_invalid", message: clean(message), hint: clean(hint) || "add --help to see what it takes" };
  }
  if (worded instanceof LedgerError) {
    return { code: worded.code, message: clean(worded.message), hint: clean(worded.hint ?? "") };
  }
  const code = driverCode(worded) ?? "fault";
  if (code === "25006") {
    const message = "this server takes no writes: it is a standby, or read-only for this login";
    return { code, message, hint: "connect to the primary; `doctor` says what this one is" };
  }
  const hint = (worded as { hint?: unknown } | null)?.hint;
  return {
    code,
    message: clean(worded instanceof Error ? worded.message : describeThrown(worded)),
    hint: typeof hint === "string" && hint !== "" ? clean(hint) : "add --debug to see where it comes from",
  };
}

/** The stacks of an error and its causes. */
function stackOf(thrown: unknown): string {
  const stacks: string[] = [];
  for (let at = thrown; at instanceof Error && stacks.length < 5; at = at.cause) stacks.push(at.stack ?? at.message);
  return stacks.join("\ncaused by ");
}
