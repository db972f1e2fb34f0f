/**
 * git_push: moves one branch of a remote repository to one commit, as a fast-forward from one known commit.
 *
 * The branch and our mark `refs/effects/KEY` move in one atomic push, each under a lease, so the mark stands if and only
 * if this effect moved the branch. A void mark at the same ref refuses a late push as a whole. Both hold while nobody
 * deletes refs below `refs/effects/`: protect them at the remote, for example with receive.denyDeletes.
 *
 * It must never push anything but that pair of refs, run a hook or use a setting of the caller's repository, prompt, or
 * follow a redirect. It works for SHA-1 repositories that hold the history back to the expected commit; a remote without
 * the `atomic` capability is refused by git itself, before anything is sent.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { access, constants, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import {
  absent,
  accepted,
  type BoundEffect,
  type DispatchReport,
  defineOperation,
  failed,
  fenced,
  invalid,
  LedgerError,
  notSent,
  unknown,
} from "../src/index.ts";

/** A leading dash would be an option and `ext::` a command: only these forms of remote exist here. */
const REMOTE = /^(\/|(file|git|https?|ssh):\/\/|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:)[^\s\p{Cc}]*$/u;
/** A password anywhere, or any account in an HTTP URL (tokens stand there): inputs are kept and shown. */
const SECRET_IN_REMOTE = /^(https?:\/\/|\w+:\/\/[^/@]*:)[^/@]*@/;
const objectId = z.string().regex(/^[0-9a-f]{40}$/, "a full lower-case SHA-1 id");

const input = z.strictObject({
  remote: z
    .string()
    .max(512)
    .regex(REMOTE, "an absolute path, a file, git, http, https or ssh URL, or user@host:path")
    .refine((remote) => !SECRET_IN_REMOTE.test(remote), "no secret in it; use a credential helper"),
  branch: z.string().min(1).max(200),
  commit: objectId,
  /** Local path of the repository that holds the commit; only its objects are used. */
  repository: z
    .string()
    .max(512)
    .regex(/^\/[^\p{Cc}]*$/u, "an absolute path"),
  /** Where the branch must still stand; null: it must not exist. Left out: where it stands at preparation. */
  expected: objectId.nullable().optional(),
});
const proof = z.strictObject({ ref: z.string(), old: objectId.nullable(), new: objectId, effectRef: z.string() });

type Proof = z.infer<typeof proof>;
type Push = Omit<z.infer<typeof input>, "expected"> & { readonly expected: string | null };
/** What the remote advertised for our two refs. */
interface Seen {
  readonly branch: string | null;
  readonly mark: string | null;
}

export default defineOperation<z.infer<typeof input>, Proof, Push>({
  name: "git_push",
  version: 1,
  input,
  proof,
  contract: {
    dispatchTimeoutMs: 60_000, // a push carries objects; half of that is short for a slow line
    precondition: "enforced",
    absence: { fence: { retentionMs: "kept" } },
    failures: {
      stale_lease: { effect: "none" },
      nothing_to_push: { effect: "none" }, // the branch stood at our commit before we sent anything: not our act
      fenced: { effect: "none" },
      refused_by_remote: { effect: "none" },
    },
    accepts: "the remote moved the branch to the commit, together with our mark",
    reference: (moved) => moved.new,
  },

  prepare: async (wanted, context) => {
    const { remote, branch, commit, repository } = wanted;
    return withWorkspace(context.signal, remote, async (workspace) => {
      const problem = await workspace.borrowObjects(repository);
      if (problem) return invalid(problem);
      const isBranch = await workspace.git("check-ref-format", `refs/heads/${branch}`);
      if (isBranch.code !== 0) return invalid("not a branch name");
      const type = await workspace.git("cat-file", "-t", commit);
      if (type.stdout !== "commit\n") return invalid("the repository does not hold that commit");
      const expected = wanted.expected === undefined ? (await look(workspace, remote, branch)).branch : wanted.expected;
      if (expected === commit) return invalid("the branch stands at that commit already");
      if (expected !== null) {
        // A lease alone permits a rewrite, so the fast-forward is shown here; between two ids it never changes again.
        const forward = await workspace.git("merge-base", "--is-ancestor", expected, commit);
        if (forward.code !== 0) return invalid("not a fast-forward, or the expected commit is not in the repository");
      }
      return {
        target: `${remote} refs/heads/${branch}`,
        payload: { remote, branch, commit, repository, expected },
        precondition: { ref: `refs/heads/${branch}`, expected },
        preview: `push ${branch} from ${expected?.slice(0, 12) ?? "nothing"} to ${commit.slice(0, 12)}; refused if it moved`,
      };
    });
  },

  dispatch: async (effect, context) => {
    const progress = { pushing: false };
    try {
      return await withWorkspace(context.signal, effect.payload.remote, (git) => push(effect, git, progress));
    } catch (error) {
      if (progress.pushing || !(error instanceof LedgerError)) throw error;
      return notSent({ reason: "git could not ask the remote", git: error.message });
    }
  },

  reconcile: async ({ key, payload }, context) =>
    withWorkspace(context.signal, payload.remote, async (workspace) => {
      const seen = await look(workspace, payload.remote, payload.branch, key);
      // A branch at our commit without our mark was moved by an unknown hand: evidence, never a claim.
      return readMark(seen, payload, key) ?? absent({ mark: null, branch: seen.branch, wanted: payload.commit });
    }),

  fence: async ({ key, payload }, context) =>
    withWorkspace(context.signal, payload.remote, async (workspace) => {
      const ref = `refs/effects/${key}`;
      await workspace.writeObject("tree", "");
      await workspace.writeObject("commit", voidMarkText(key));
      const update = `${voidMark(key)}:${ref}`;
      const pushed = await workspace.git(...PUSH, `--force-with-lease=${ref}:`, "--", payload.remote, update);
      // Whatever the push answered, only what stands there now counts: that makes a second fence the same as the first.
      const found = readMark(await look(workspace, payload.remote, payload.branch, key), payload, key);
      if (found) return found;
      throw new LedgerError("fence_refused", `the remote took no void mark: ${clean(pushed.stderr)}`, {
        hint: "the remote must accept new refs below refs/effects/ and show them",
      });
    }),
});

async function push(
  { key, payload }: BoundEffect<Push>,
  workspace: Workspace,
  progress: { pushing: boolean },
): Promise<DispatchReport<Proof>> {
  const before = judge(await look(workspace, payload.remote, payload.branch, key), payload, key);
  if (before) return before; // nothing was sent, so this is certain
  const problem = (await workspace.borrowObjects(payload.repository)) ?? (await workspace.installGuard(payload, key));
  if (problem) return notSent({ reason: problem });
  progress.pushing = true;
  const pushed = await workspace.git(
    ...PUSH,
    "--atomic",
    `--force-with-lease=refs/heads/${payload.branch}:${payload.expected ?? ""}`,
    `--force-with-lease=refs/effects/${key}:`,
    "--",
    payload.remote,
    `${payload.commit}:refs/heads/${payload.branch}`,
    `${payload.commit}:refs/effects/${key}`,
  );
  const answer = readPorcelain(pushed, payload, key);
  if (answer === "updated") return accepted(proofOf(payload, key));
  const git = clean(`${pushed.stdout}\n${pushed.stderr}`);
  // git could not connect, or a ref moved since the look, or the signal came: nothing of the update left.
  if (!(await workspace.guardOpened())) return notSent({ reason: "git stopped before it sent anything", git });
  if (answer === "unclear") return unknown(`the push was sent and not answered: ${git}`);
  // Refused as a whole. The refs, not the words of the refusal, say why; a mark that stands makes it uncertain again.
  const after = judge(await look(workspace, payload.remote, payload.branch, key), payload, key);
  return after ?? refusal("refused_by_remote", { git });
}

/** What a look means for a dispatch of which nothing happened; null: the refs give no reason. */
function judge(seen: Seen, payload: Push, key: string): DispatchReport<Proof> | null {
  if (seen.mark === voidMark(key)) return refusal("fenced", { ref: `refs/effects/${key}` });
  if (seen.mark) return unknown(`refs/effects/${key} stands at ${seen.mark} already, not by this dispatch`);
  const told = { ref: `refs/heads/${payload.branch}`, expected: payload.expected, stands: seen.branch };
  if (seen.branch === payload.commit) return refusal("nothing_to_push", told);
  if (seen.branch !== payload.expected) return refusal("stale_lease", told);
  return null;
}

function refusal(code: string, told: Readonly<Record<string, unknown>>): DispatchReport<Proof> {
  return failed({ code, ...told });
}

function readMark(seen: Seen, payload: Push, key: string) {
  if (seen.mark === null) return null;
  if (seen.mark === payload.commit) return accepted(proofOf(payload, key));
  if (seen.mark === voidMark(key)) return fenced({ ref: `refs/effects/${key}`, mark: seen.mark });
  return unknown(`refs/effects/${key} stands at ${seen.mark}: neither the bound commit nor a void mark`);
}

function proofOf({ branch, expected, commit }: Push, key: string): Proof {
  return { ref: `refs/heads/${branch}`, old: expected, new: commit, effectRef: `refs/effects/${key}` };
}

/** The void mark: a commit of ours with no files. Its bytes depend on the key alone, so its id proves what it says. */
function voidMarkText(key: string): string {
  const who = "pg-effects <pg-effects@effects.invalid> 0 +0000";
  return `tree ${gitId("tree", "")}\nauthor ${who}\ncommitter ${who}\n\npg-effects void ${key}\n`;
}

function voidMark(key: string): string {
  return gitId("commit", voidMarkText(key));
}

function gitId(type: string, text: string): string {
  return createHash("sha1")
    .update(`${type} ${Buffer.byteLength(text)}\0${text}`)
    .digest("hex");
}

/** @throws LedgerError `git_failed`: could not ask. */
async function look(workspace: Workspace, remote: string, branch: string, key?: string): Promise<Seen> {
  const refs = [`refs/heads/${branch}`, ...(key ? [`refs/effects/${key}`] : [])];
  const listed = await workspace.git("ls-remote", "--refs", "--", remote, ...refs);
  if (listed.code !== 0) {
    throw new LedgerError("git_failed", `the remote cannot be read: ${clean(listed.stderr)}`, { hint: "ask again" });
  }
  const ids = new Map(listed.stdout.split("\n").map((line) => [line.slice(41), line.slice(0, 40)]));
  return { branch: ids.get(`refs/heads/${branch}`) ?? null, mark: ids.get(`refs/effects/${key}`) ?? null };
}

/** git-push documents the porcelain lines: flag, from:to, summary. `[remote failure]` is a lost answer, not a refusal. */
function readPorcelain(pushed: Ran, payload: Push, key: string): "updated" | "refused" | "unclear" {
  const lines = new Map<string, { flag: string; summary: string }>();
  for (const line of pushed.stdout.split("\n")) {
    const [, flag, ref, summary] = /^([ +*!=-])\t[^\t:]*:([^\t]+)\t(.*)$/.exec(line) ?? [];
    if (flag && ref && summary) lines.set(ref, { flag, summary });
  }
  const branch = lines.get(`refs/heads/${payload.branch}`);
  const mark = lines.get(`refs/effects/${key}`);
  if (!branch || !mark || lines.size !== 2) return "unclear";
  if ([branch, mark].every(({ flag, summary }) => flag === "!" && summary.startsWith("[remote rejected]"))) {
    return "refused";
  }
  const [, from, to] = /^([0-9a-f]+)\.\.([0-9a-f]+)$/.exec(branch.summary) ?? [];
  const moved =
    payload.expected === null
      ? branch.flag === "*"
      : branch.flag === " " && from && to && payload.expected.startsWith(from) && payload.commit.startsWith(to);
  return pushed.code === 0 && moved && mark.flag === "*" && /^Done$/m.test(pushed.stdout) ? "updated" : "unclear";
}

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

const PUSH = ["push", "--porcelain", "--no-progress", "--no-follow-tags", "--no-signed", "--recurse-submodules=no"];
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

interface Ran {
  /** null: ended by the signal. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}
interface Workspace {
  git(...args: readonly string[]): Promise<Ran>;
  writeObject(type: "tree" | "commit", text: string): Promise<Ran>;
  /** Makes the repository's objects, and nothing else of it, readable here. Answers what is wrong, or null. */
  borrowObjects(repository: string): Promise<string | null>;
  installGuard(payload: Push, key: string): Promise<string | null>;
  guardOpened(): Promise<boolean>;
}

/** Runs in an empty repository of our own, so that neither settings nor hooks of the caller's repository count. */
async function withWorkspace<T>(
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
function clean(text: string): string {
  const inert = text.replace(/\p{Cc}+/gu, " ").replace(/:\/\/[^/\s@]*@/g, "://");
  return inert.trim().slice(0, 500).toWellFormed();
}
