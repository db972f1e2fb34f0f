/**
 * System git for git_push: in an empty temporary repository, with nothing of the caller's but objects, nothing of the host's
 * but what finds and authenticates, and a guard that lets exactly one pair of refs leave. It decides nothing.
 */
import { spawn } from "node:child_process";
import { access, constants, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LedgerError } from "../core/error.ts";

/**
 * git runs the pre-push hook between the remote's advertisement and the first byte of the update, and tells it what will
 * be sent. Ours lets exactly the leased pair through: without it git passes over a branch that stands at the commit
 * already, sends the mark alone, and the mark would claim somebody else's move. It notes that it opened; where it did
 * not, nothing was sent.
 */
const GUARD = `#!/bin/sh
seen=0
while read -r _ new ref old; do
  case "$ref $old $new" in
    "$PG_EFFECTS_BRANCH" | "$PG_EFFECTS_MARK") seen=$((seen + 1)) ;;
    *) exit 1 ;;
  esac
done
[ "$seen" -eq 2 ] || exit 1
: > "$PG_EFFECTS_OPENED"
`;

/** Of the worker's environment only what finds and authenticates; no GIT_* variable of the host reaches git. */
const INHERITED = [
  "PATH",
  "HOME",
  "XDG_CONFIG_HOME",
  "SSH_AUTH_SOCK",
  "http_proxy",
  "https_proxy",
  "HTTPS_PROXY",
  "no_proxy",
];
/** What is kept of each of git's streams, in bytes: our answers are a few lines. The rest is read and dropped. */
const OUTPUT_BYTES_MAX = 65_536;

/** What a git process said. */
export interface Ran {
  /** null: ended by the signal. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}
/** The one move that a push may make. */
export interface Pair {
  readonly branch: string;
  readonly expected: string | null;
  readonly commit: string;
}

/** A temporary repository, and git in it. */
export interface Workspace {
  git(...args: readonly string[]): Promise<Ran>;
  writeObject(type: "tree" | "commit", text: string): Promise<Ran>;
  /** Makes the repository's objects, and nothing else of it, readable here. Answers what is wrong, or null. */
  borrowObjects(repository: string): Promise<string | null>;
  installGuard(pair: Pair, key: string): Promise<string | null>;
  guardOpened(): Promise<boolean>;
}

/** Runs in an empty repository of our own, so that neither settings nor hooks of the caller's repository count. */
export async function withWorkspace<T>(
  signal: AbortSignal,
  remote: string,
  use: (workspace: Workspace) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "pg-effects-git-"));
  const [hooks, opened] = [join(folder, "our-hooks"), join(folder, "opened")];
  const env: Record<string, string | undefined> = {
    ...Object.fromEntries(INHERITED.map((name) => [name, process.env[name]])),
    LC_ALL: "C",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "",
    GIT_ALLOW_PROTOCOL: "file:git:http:https:ssh",
    GIT_NO_REPLACE_OBJECTS: "1",
    PG_EFFECTS_OPENED: opened,
    ...configuration([
      ["core.hooksPath", hooks],
      ["gc.auto", "0"],
      ["maintenance.auto", "false"],
      // Under the remote's own URL, so that a setting of the host for this server does not win.
      [`http.${remote}.followRedirects`, "false"],
      // On a connection that it kept from the advertisement, curl repeats a push that was answered by a reset (seen).
      [`http.${remote}.extraHeader`, "Connection: close"],
      [`http.${remote}.version`, "HTTP/1.1"],
    ]),
  };
  const options = ["--git-dir", folder];
  const run = (args: readonly string[], stdin = "") => runGit(args, { cwd: folder, env, signal, stdin });
  const workspace: Workspace = {
    git: (...args) => run([...options, ...args]),
    writeObject: (type, text) => run([...options, "hash-object", "-t", type, "-w", "--stdin"], text),
    borrowObjects: async (repository) => {
      const found = await run(["-C", repository, "rev-parse", "--path-format=absolute", "--git-path", "objects"]);
      if (found.code !== 0) return `the repository cannot be read: ${clean(found.stderr)}`;
      await writeFile(join(folder, "objects", "info", "alternates"), found.stdout);
      return null;
    },
    installGuard: async ({ branch, expected, commit }, key) => {
      const none = "0".repeat(40);
      env.PG_EFFECTS_BRANCH = `refs/heads/${branch} ${expected ?? none} ${commit}`;
      env.PG_EFFECTS_MARK = `refs/effects/${key} ${none} ${commit}`;
      await writeFile(join(hooks, "pre-push"), GUARD, { mode: 0o700 });
      // git passes over, silently, a hook that it may not execute
      return (await can(join(hooks, "pre-push"), constants.X_OK)) ? null : "the temporary folder permits no hook";
    },
    guardOpened: () => can(opened, constants.F_OK),
  };
  try {
    await mkdir(hooks);
    const made = await workspace.git("init", "--quiet", "--bare", "--template=", "--object-format=sha1");
    if (made.code !== 0) throw new LedgerError("git_failed", `no temporary repository: ${clean(made.stderr)}`);
    return await use(workspace);
  } finally {
    // A folder that stays is untidy; it must not take the place of what is known about the push.
    await rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(process.emitWarning);
  }
}

/** Settings of git by environment, the one way in which a name may hold any URL. */
function configuration(settings: readonly (readonly [string, string])[]): Record<string, string> {
  const pairs = settings.flatMap(([name, value], index) => [
    [`GIT_CONFIG_KEY_${index}`, name],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ]);
  return { GIT_CONFIG_COUNT: String(settings.length), ...Object.fromEntries(pairs) };
}

function can(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}

/** One git process in a group of its own, so that an abort ends its helpers (ssh, send-pack, a local receive-pack) too. */
function runGit(
  args: readonly string[],
  how: { cwd: string; env: Record<string, string | undefined>; signal: AbortSignal; stdin: string },
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    if (how.signal.aborted) return resolve({ code: null, stdout: "", stderr: "ended by the signal" });
    const child = spawn("git", args, { cwd: how.cwd, env: how.env, detached: true, stdio: "pipe" });
    const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
    const kill = (): void => killGroup(child.pid);
    how.signal.addEventListener("abort", kill, { once: true });
    child.once("error", (cause) => reject(new LedgerError("git_failed", "git cannot be started", { cause })));
    child.once("close", (code) => {
      how.signal.removeEventListener("abort", kill);
      resolve({ code, stdout: stdout(), stderr: stderr() });
    });
    child.stdin.on("error", () => undefined); // git ended without reading: its exit code says so
    child.stdin.end(how.stdin);
  });
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error; // it ended by itself in this very moment
  }
}

function collect(stream: NodeJS.ReadableStream): () => string {
  const chunks: Buffer[] = [];
  let room = OUTPUT_BYTES_MAX;
  stream.on("data", (chunk: Buffer) => {
    if (room > 0) chunks.push(chunk.subarray(0, room));
    room -= chunk.length;
  });
  return () => Buffer.concat(chunks).toString("utf8");
}

/** Diagnostic text for evidence: no control characters, no account of a URL, at most 500 characters. */
export function clean(text: string): string {
  const inert = text.replace(/\p{Cc}+/gu, " ").replace(/:\/\/[^/\s@]*@/g, "://");
  return inert.trim().slice(0, 500).toWellFormed();
}
