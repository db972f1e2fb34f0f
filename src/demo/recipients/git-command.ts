/**
 * Running the system's git for the demo repository, apart from the user's and the machine's configuration. It must never
 * read a credential, ask a person, or leave a command running.
 */
import { spawn } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { LedgerError } from "../../core/error.ts";

/** Far more than a command on a repository of a few commits takes; a stuck one is ended. */
const COMMAND_TIMEOUT_MS = 30_000;

/**
 * The environment of every git process here. Configuration comes from these variables only; `safe.directory` because a
 * folder may belong to another user than the process (root in a container, a mapped user).
 */
export function gitEnvironment(home: string): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH,
    HOME: home,
    LC_ALL: "C",
    GIT_TERMINAL_PROMPT: "0",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "safe.directory",
    GIT_CONFIG_VALUE_0: "*",
    GIT_AUTHOR_NAME: "pg-effects demo",
    GIT_AUTHOR_EMAIL: "demo@example.test",
    GIT_COMMITTER_NAME: "pg-effects demo",
    GIT_COMMITTER_EMAIL: "demo@example.test",
  };
}

export interface GitRun {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface GitOptions {
  /** The git to run. Default: the one in PATH. */
  readonly git?: string;
  readonly folder: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly input?: string;
}

/**
 * Runs git to its end, whatever the exit code.
 * @throws LedgerError `git_missing`
 */
export async function tryGit(args: readonly string[], options: GitOptions): Promise<GitRun> {
  const { git = "git", folder, environment, input = "" } = options;
  const child = spawn(git, args, { cwd: folder, env: environment, stdio: "pipe" });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
  // A command that does not read its input, or never started, shows by its exit or its `error` event.
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  // Not spawn's own timeout: its timer stays when the program cannot be started.
  const timer = setTimeout(() => child.kill(), COMMAND_TIMEOUT_MS);
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once("error", (cause) =>
      reject(
        new LedgerError("git_missing", "git could not be started", {
          hint: "install git, with its http-backend",
          cause,
        }),
      ),
    );
    child.once("close", resolve);
  }).finally(() => clearTimeout(timer));
  return { exitCode, stdout: Buffer.concat(stdout).toString("utf8"), stderr: Buffer.concat(stderr).toString("utf8") };
}

/**
 * Runs git and returns what it printed, without the last line end.
 * @throws LedgerError `git_missing`, `git_failed`
 */
export async function runGit(args: readonly string[], options: GitOptions): Promise<string> {
  const run = await tryGit(args, options);
  if (run.exitCode === 0) return run.stdout.replace(/\n$/, "");
  throw new LedgerError("git_failed", `git ${args[0] ?? ""} ended with ${String(run.exitCode)}: ${run.stderr.trim()}`, {
    hint: "the demo repository is a temporary one; start again",
  });
}

/**
 * The path of git's own HTTP server program.
 * @throws LedgerError `git_missing`, `git_http_backend_missing`
 */
export async function findHttpBackend(options: GitOptions): Promise<string> {
  const backend = join(await runGit(["--exec-path"], options), "git-http-backend");
  try {
    await access(backend, constants.X_OK);
  } catch (cause) {
    throw new LedgerError("git_http_backend_missing", "this git comes without git-http-backend", {
      hint: "install the git package that has it (some systems split it off)",
      cause,
    });
  }
  return backend;
}
