/**
 * Runs the command line as its users do: the real file as a child process, with an environment of the test's own. Every
 * output is searched for the database's password, so that each test is a test of that, too.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { waitFor } from "../harness/wait.ts";

export const ROOT = join(import.meta.dirname, "..", "..");
const MAIN = join(ROOT, "src", "cli", "main.ts");

/** Halves the start of each of these many processes. */
const COMPILE_CACHE = join(ROOT, "node_modules", ".cache", "pg-effects-tests");

/** The operations of these tests. */
export const TASKS = join(ROOT, "test", "fixtures", "tasks");

export interface RunOptions {
  /** For DATABASE_URL. Left out: there is none. */
  readonly database?: string;
  readonly environment?: NodeJS.ProcessEnv;
  readonly stdin?: string | Buffer;
  readonly cwd?: string;
  /** For how long what goes on may take to say that it does. */
  readonly readyMs?: number;
}

export interface Ended {
  readonly exit: number | NodeJS.Signals;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command to its end. */
export async function cli(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const child = start(args, options);
  child.stdin?.end(options.stdin ?? "");
  return ending(child, args, options);
}

/** Runs a command with --json and reads its one document; `error` is there where it failed. */
export async function cliJson<Document>(
  args: readonly string[],
  options: RunOptions = {},
): Promise<{ readonly exit: Ended["exit"]; readonly document: Document; readonly stderr: string }> {
  const { exit, stdout, stderr } = await cli([...args, "--json"], options);
  return { exit, document: JSON.parse(stdout) as Document, stderr };
}

/** The error object of --json. */
export interface ErrorDocument {
  readonly error: { readonly code: string; readonly message: string; readonly hint: string };
}

/** Runs a command that is to fail, and returns its code, exit code and words. */
export async function failing(args: readonly string[], options: RunOptions = {}) {
  const { exit, document, stderr } = await cliJson<ErrorDocument>(args, options);
  assert.deepEqual(Object.keys(document), ["error"], `${args.join(" ")} did not fail`);
  assert.notEqual(document.error.hint, "", `${document.error.code} says what to do`);
  return { exit, code: document.error.code, message: document.error.message, hint: document.error.hint, stderr };
}

/** A command that goes on. */
export interface Running {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  readonly ended: Promise<Ended>;
}

/** Starts a command and waits until its stdout holds a text. */
export async function running(args: readonly string[], until: string, options: RunOptions = {}): Promise<Running> {
  const child = start(args, options);
  child.stdin?.end();
  const printed = { stdout: "", stderr: "" };
  child.stdout?.on("data", (chunk) => {
    printed.stdout += String(chunk);
  });
  child.stderr?.on("data", (chunk) => {
    printed.stderr += String(chunk);
  });
  const ended = ending(child, args, options);
  const ready = () => {
    assert.equal(child.exitCode, null, `${args[0]} ended early:\n${printed.stdout}${printed.stderr}`);
    return printed.stdout.includes(until);
  };
  try {
    await waitFor(`${args[0]} prints ${until}`, ready, options.readyMs ? { timeoutMs: options.readyMs } : {});
  } catch (error) {
    child.kill("SIGKILL"); // nobody has it to end it
    throw error;
  }
  return { child, stdout: () => printed.stdout, stderr: () => printed.stderr, ended };
}

function start(args: readonly string[], { database, environment, cwd }: RunOptions): ChildProcess {
  return spawn(process.execPath, [MAIN, ...args], {
    cwd: cwd ?? ROOT,
    env: {
      PATH: process.env.PATH,
      TZ: "UTC",
      PG_EFFECTS_RELEASE: "test", // else git is asked, which takes longer than the test
      NODE_COMPILE_CACHE: COMPILE_CACHE,
      ...(database === undefined ? {} : { DATABASE_URL: database }),
      ...environment,
    },
  });
}

async function ending(child: ChildProcess, args: readonly string[], options: RunOptions): Promise<Ended> {
  assert.ok(child.stdout && child.stderr);
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>,
  ]);
  for (const secret of passwordsIn([options.database, ...args])) {
    assert.ok(!`${stdout}${stderr}`.includes(secret), `${args[0]} printed the password`);
  }
  return { exit: code ?? signal ?? "SIGKILL", stdout, stderr };
}

/** As they were given and as they read decoded. Short ones are words that may be printed for other reasons. */
export function passwordsIn(texts: readonly (string | undefined)[]): readonly string[] {
  return texts.flatMap((given) => {
    if (given === undefined || !URL.canParse(given)) return [];
    const { password } = new URL(given);
    return password.length >= 8 ? [password, decodeURIComponent(password)] : [];
  });
}
