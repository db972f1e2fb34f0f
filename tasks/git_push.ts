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
import { createHash } from "node:crypto";
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
import { clean, type Ran, type Workspace, withWorkspace } from "../src/operations/git-workspace.ts";

const PUSH = ["push", "--porcelain", "--no-progress", "--no-follow-tags", "--no-signed", "--recurse-submodules=no"];

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
