/**
 * A bare git repository in a temporary folder, served over HTTP on loopback, and a work repository beside it in which the
 * commits to publish are made. The bare one refuses deletions and non-fast-forwards, which a lease alone permits.
 */
import { appendFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findHttpBackend, type GitOptions, gitEnvironment, runGit, tryGit } from "./git-command.ts";
import { startGitHttpBridge } from "./git-http-bridge.ts";
import { type Listener, LOOPBACK_HOST } from "./loopback.ts";

const BARE_NAME = "repository.git";

/** `autogc` is off because it would outlive the push in the background. */
const BARE_SETTINGS = `
[receive]
  denyDeletes = true
  denyNonFastForwards = true
  autogc = false
[http]
  receivepack = true
`;

export interface CommitOptions {
  /** Default: the initial commit. */
  readonly parent?: string;
  /** The file that the commit writes. Default: `release.txt`. */
  readonly file?: string;
  readonly content: string;
  readonly message: string;
}

export interface GitRepository extends Listener {
  readonly url: string;
  /** The same repository reached through a proxy on another loopback port. */
  urlAt(port: number): string;
  /** The bare repository's folder. */
  readonly folder: string;
  /** Where the commits to publish are made; it has no remote. */
  readonly workFolder: string;
  /** What a git process needs so that no other configuration counts. */
  readonly environment: NodeJS.ProcessEnv;
  /** The commit that `main` had at the start. */
  readonly initialCommit: string;
  /** Pushes that arrived whole over HTTP, also those that were refused. */
  readonly pushes: number;
  /** Those of them that ask for this ref (`refs/heads/main`) to change. */
  pushesTo(ref: string): number;
  /** Makes a commit in the work repository and returns its id. Nothing is published, no branch moves. */
  commit(options: CommitOptions): Promise<string>;
  /** What the ref (`refs/heads/main`) is in the bare repository, or null. */
  ref(name: string): Promise<string | null>;
  /** Somebody else moves a branch: a push past HTTP, which `pushes` does not count. @throws LedgerError `git_failed` */
  moveBranch(branch: string, commit: string): Promise<void>;
  /** Also ends what runs and removes the folders. */
  stop(): Promise<void>;
}

/**
 * @param options.git the git to run; default: the one in PATH
 * @param options.around the folder in which its own folder is made; default: the system's temporary one
 * @throws LedgerError `git_missing`, `git_http_backend_missing`, `git_failed`, `recipient_not_started`
 */
export async function startGitRepository(
  options: { readonly git?: string; readonly around?: string } = {},
): Promise<GitRepository> {
  const root = await mkdtemp(join(options.around ?? tmpdir(), "pg-effects-git-"));
  try {
    return await startIn(root, options);
  } catch (error) {
    await removeFolder(root);
    throw error;
  }
}

async function startIn(root: string, choice: { readonly git?: string }): Promise<GitRepository> {
  const environment = gitEnvironment(root);
  const folder = join(root, BARE_NAME);
  const workFolder = join(root, "work");
  const at = (place: string): GitOptions => ({ ...choice, folder: place, environment });

  const backend = await findHttpBackend(at(root));
  await runGit(["init", "--quiet", "--template=", "--bare", "--initial-branch=main", folder], at(root));
  await runGit(["init", "--quiet", "--template=", "--initial-branch=main", workFolder], at(root));
  await appendFile(join(folder, "config"), BARE_SETTINGS);

  const commit = async (parent: string | null, file: string, content: string, message: string): Promise<string> => {
    const blob = await runGit(["hash-object", "-w", "--stdin"], { ...at(workFolder), input: content });
    const before = parent === null ? "" : await runGit(["ls-tree", parent], at(workFolder));
    const entries = before.split("\n").filter((entry) => entry !== "" && !entry.endsWith(`\t${file}`));
    const input = `${[...entries, `100644 blob ${blob}\t${file}`].join("\n")}\n`;
    const tree = await runGit(["mktree"], { ...at(workFolder), input });
    const parents = parent === null ? [] : ["-p", parent];
    return runGit(["commit-tree", tree, ...parents, "-m", message], at(workFolder));
  };
  const moveBranch = async (branch: string, id: string): Promise<void> => {
    await runGit(["push", "--quiet", folder, `${id}:refs/heads/${branch}`], at(workFolder));
  };

  const initialCommit = await commit(null, "README.md", "A repository of the pg-effects demo.\n", "Start");
  await moveBranch("main", initialCommit);
  const bridge = await startGitHttpBridge({ backend, root, environment });
  const urlAt = (port: number) => `http://${LOOPBACK_HOST}:${port}/${BARE_NAME}`;

  return {
    host: bridge.host,
    port: bridge.port,
    url: urlAt(bridge.port),
    urlAt,
    folder,
    workFolder,
    environment,
    initialCommit,
    get pushes() {
      return bridge.pushes;
    },
    pushesTo: (ref) => bridge.pushesTo(ref),
    commit: ({ parent = initialCommit, file = "release.txt", content, message }) =>
      commit(parent, file, content, message),
    async ref(name) {
      const run = await tryGit(["rev-parse", "--verify", "--quiet", name], at(folder));
      return run.exitCode === 0 ? run.stdout.trim() : null;
    },
    moveBranch,
    async stop() {
      await bridge.stop();
      await removeFolder(root);
    },
  };
}

/** A backend that was ended may still be closing its files. */
async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}
