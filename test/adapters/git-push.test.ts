/** tasks/git_push.ts against the system's git: a bare repository, by path and over HTTP. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { access, mkdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type FaultProxy, startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { runGit } from "../../src/demo/recipients/git-command.ts";
import { type GitRepository, startGitRepository } from "../../src/demo/recipients/git-repository.ts";
import gitPush from "../../tasks/git_push.ts";
import { describeConformance, type Subject } from "./conformance.ts";
import { type AnyEffect, bind, dispatch, fence, outcomeOf, prepare, reconcile } from "./context.ts";

let repository: GitRepository;
let proxy: FaultProxy;
before(async () => {
  repository = await startGitRepository();
  // The reflog is the count: it has a line for each time that a branch moved.
  await inBare("config", "core.logAllRefUpdates", "always");
  proxy = await startFaultProxy({ target: repository });
});
after(async () => {
  await proxy.stop();
  await repository.stop();
});

describeConformance(
  "git_push by path",
  subject(() => repository.folder),
);
describeConformance(
  "git_push over HTTP",
  subject(() => repository.url),
);

describe("the lease", () => {
  test("a branch that somebody moved after preparation is left alone: stale_lease, no mark", async () => {
    const effect = await bind(gitPush, await request());
    const other = await newCommit();
    await repository.moveBranch(effect.payload.branch, other);
    const report = await dispatch(gitPush, effect);
    assert.deepEqual(report.report === "failed" && report.evidence, {
      code: "stale_lease",
      ref: `refs/heads/${effect.payload.branch}`,
      expected: repository.initialCommit,
      stands: other,
    });
    assert.deepEqual(await refs(effect), { branch: other, mark: null });
  });

  test("a branch that moves while the push is on its way is left alone by the server", async () => {
    const effect = await bind(gitPush, await request({ remote: repository.urlAt(proxy.port) }));
    const push = proxy.holdRequest({ match: contains("POST /repository.git/git-receive-pack") });
    const reported = dispatch(gitPush, effect);
    await push.reached;
    const other = await newCommit();
    await repository.moveBranch(effect.payload.branch, other);
    push.release();
    const report = await reported;
    assert.equal(report.report === "failed" && report.code, "stale_lease", JSON.stringify(report));
    assert.deepEqual(await refs(effect), { branch: other, mark: null });
  });

  test("expected null creates the branch, and leaves one that exists alone", async () => {
    const created = await bind(gitPush, await request({ branch: newName(), expected: null }));
    const report = await dispatch(gitPush, created);
    assert.ok(report.report === "accepted");
    assert.deepEqual(report.proof, {
      ref: `refs/heads/${created.payload.branch}`,
      old: null,
      new: created.payload.commit,
      effectRef: `refs/effects/${created.key}`,
    });
    const second = await bind(gitPush, await request({ branch: created.payload.branch, expected: null }));
    const refused = await dispatch(gitPush, second);
    assert.equal(refused.report === "failed" && refused.code, "stale_lease");
    assert.deepEqual(await refs(second), { branch: created.payload.commit, mark: null });
  });

  test("a branch that stands at the commit before we start is nobody's act of ours", async () => {
    const effect = await bind(gitPush, await request());
    await repository.moveBranch(effect.payload.branch, effect.payload.commit);
    const report = await dispatch(gitPush, effect);
    assert.equal(report.report === "failed" && report.code, "nothing_to_push");
    assert.equal((await refs(effect)).mark, null);
    const found = await reconcile(gitPush, effect);
    assert.deepEqual(found.report === "absent" && found.evidence, {
      mark: null,
      branch: effect.payload.commit,
      wanted: effect.payload.commit,
    });
  });

  test("a branch that somebody moves to our commit after our look gets no mark that would claim it", async () => {
    const effect = await bind(gitPush, await request({ remote: repository.urlAt(proxy.port) }));
    const advertisement = proxy.holdRequest({ match: contains("info/refs?service=git-receive-pack") });
    const reported = dispatch(gitPush, effect);
    await advertisement.reached;
    await repository.moveBranch(effect.payload.branch, effect.payload.commit);
    const pushes = repository.pushes;
    advertisement.release();
    const report = await reported;
    assert.equal(report.report, "notSent", JSON.stringify(report));
    assert.equal(repository.pushes, pushes);
    assert.equal((await refs(effect)).mark, null);
  });
});

describe("what a push on its way can become", () => {
  test("a push that was on its way when the fence came is refused as a whole", async () => {
    const effect = await bind(gitPush, await request({ remote: repository.urlAt(proxy.port) }));
    const push = proxy.holdRequest({ match: contains("POST /repository.git/git-receive-pack") });
    const reported = dispatch(gitPush, effect);
    await push.reached;
    assert.equal((await fence(gitPush, at(effect, repository.folder))).report, "fenced");
    push.release();
    const report = await reported;
    assert.equal(report.report === "failed" && report.code, "fenced", JSON.stringify(report));
    assert.equal((await refs(effect)).branch, repository.initialCommit);
    assert.equal((await reconcile(gitPush, effect)).report, "fenced");
  });

  test("a connection that is cut after acceptance leaves it open, and the mark tells", async () => {
    const effect = await bind(gitPush, await request({ remote: repository.urlAt(proxy.port) }));
    const cut = proxy.cutReply({ to: contains("POST /repository.git/git-receive-pack") });
    const pushes = repository.pushes;
    const report = await dispatch(gitPush, effect);
    await cut.reached;
    assert.equal(report.report, "unknown", JSON.stringify(report));
    assert.equal((await reconcile(gitPush, effect)).report, "accepted");
    assert.deepEqual([repository.pushes - pushes, await changes(effect)], [1, 1]);
  });

  test("an abort ends a push that waits for its answer", async () => {
    const effect = await bind(gitPush, await request({ remote: repository.urlAt(proxy.port) }));
    const answer = proxy.holdReply({ to: contains("POST /repository.git/git-receive-pack") });
    const abort = new AbortController();
    const outcome = outcomeOf(dispatch(gitPush, effect, { signal: abort.signal }));
    await answer.reached;
    abort.abort();
    assert.equal(await outcome, "unknown");
    answer.release();
    assert.equal((await reconcile(gitPush, effect)).report, "accepted");
  });

  test("a second arrival under the same key moves nothing and claims nothing", async () => {
    const effect = await bind(gitPush, await request());
    assert.equal((await dispatch(gitPush, effect)).report, "accepted");
    await inBare("update-ref", `refs/heads/${effect.payload.branch}`, repository.initialCommit);
    assert.equal((await dispatch(gitPush, effect)).report, "unknown");
    assert.equal((await refs(effect)).branch, repository.initialCommit);
  });

  test("a mark that is neither ours nor void concludes nothing", async () => {
    const effect = await bind(gitPush, await request());
    await inBare("update-ref", `refs/effects/${effect.key}`, repository.initialCommit);
    const reports = [await dispatch(gitPush, effect), await reconcile(gitPush, effect), await fence(gitPush, effect)];
    assert.deepEqual(
      reports.map((each) => each.report),
      ["unknown", "unknown", "unknown"],
    );
  });

  test("a refusal by the remote's own hook is a refusal without effect", async () => {
    const effect = await bind(gitPush, await request());
    const script = `#!/bin/sh\ncase "$1" in refs/heads/${effect.payload.branch}) exit 1;; esac\n`;
    await installHook(join(repository.folder, "hooks"), "update", script);
    const report = await dispatch(gitPush, effect);
    assert.equal(report.report === "failed" && report.code, "refused_by_remote", JSON.stringify(report));
    assert.deepEqual(await refs(effect), { branch: repository.initialCommit, mark: null });
  });

  test("a remote that refuses the connection was sent nothing; a lookup there throws", async () => {
    const effect = await bind(gitPush, await request());
    const nowhere = at(effect, "http://127.0.0.1:1/closed.git");
    assert.equal((await dispatch(gitPush, nowhere)).report, "notSent");
    await assert.rejects(reconcile(gitPush, nowhere), { code: "git_failed" });
    await assert.rejects(fence(gitPush, nowhere), { code: "git_failed" });
  });

  test("a redirect is not followed", async (context) => {
    const server = createServer((asked, answer) => {
      answer.writeHead(302, { location: `http://127.0.0.1:${repository.port}${asked.url}` }).end();
    });
    server.listen(0, "127.0.0.1");
    context.after(() => server.close());
    await once(server, "listening");
    const address = server.address();
    assert.ok(address && typeof address === "object");
    const effect = await bind(gitPush, await request());
    const moved = at(effect, `http://127.0.0.1:${address.port}/repository.git`);
    assert.equal((await dispatch(gitPush, moved)).report, "notSent");
    assert.equal((await refs(effect)).branch, repository.initialCommit);
  });
});

describe("preparation", () => {
  test("binds where the branch stands when the request does not say it", async () => {
    const { expected: _left, ...input } = await request();
    const effect = await bind(gitPush, input);
    assert.equal(effect.payload.expected, repository.initialCommit);
    assert.deepEqual(effect.precondition, {
      ref: `refs/heads/${effect.payload.branch}`,
      expected: repository.initialCommit,
    });
  });

  test("declines a rewrite, a commit that is not there, and a branch that has arrived already", async () => {
    const input = await request();
    const stranger = await runGit(["commit-tree", `${input.commit}^{tree}`, "-m", "without parent"], inWork());
    const declined: [string, object][] = [
      ["not a fast-forward", { ...input, commit: stranger }],
      ["does not hold that commit", { ...input, commit: "1".repeat(40) }],
      ["stands at that commit already", { ...input, commit: repository.initialCommit }],
      ["not a branch name", { ...input, branch: "a..b" }],
      ["cannot be read", { ...input, repository: "/nowhere" }],
    ];
    for (const [why, asked] of declined) {
      const prepared = await prepare(gitPush, asked);
      assert.ok("invalid" in prepared && prepared.invalid.includes(why), `${why}: ${JSON.stringify(prepared)}`);
    }
  });

  test("an input cannot name a command, an option or a secret as its remote", async () => {
    const input = await request();
    const { input: schema } = gitPush.definition;
    for (const remote of [
      "ext::sh -c true",
      "--upload-pack=true",
      "relative/path",
      "http://user:pw@host/x",
      "https://t@h/x",
    ]) {
      assert.equal(schema.safeParse({ ...input, remote }).success, false, remote);
    }
    for (const remote of [
      "/srv/x.git",
      "ssh://git@example.test/x.git",
      "git@example.test:x.git",
      "https://example.test/x",
    ]) {
      assert.equal(schema.safeParse({ ...input, remote }).success, true, remote);
    }
  });

  test("neither hooks nor settings of the caller's repository are used", async (context) => {
    const effect = await bind(gitPush, await request());
    const trace = join(repository.workFolder, "hook-ran");
    const hooks = join(repository.workFolder, ".git", "hooks");
    await installHook(hooks, "pre-push", `#!/bin/sh\n: > "${trace}"\n`);
    await runGit(["config", "url./nowhere.insteadOf", repository.folder], inWork());
    context.after(async () => {
      await rm(hooks, { recursive: true });
      await runGit(["config", "--unset", "url./nowhere.insteadOf"], inWork());
    });
    assert.equal((await dispatch(gitPush, effect)).report, "accepted");
    await assert.rejects(access(trace), { code: "ENOENT" });
  });
});

function subject(remote: () => string): Subject {
  return {
    operation: gitPush,
    looksUp: true,
    input: () => request({ remote: remote() }),
    changes,
    atSilence: (effect, port) => ({ effect: at(effect, `http://127.0.0.1:${port}/silent.git`), secrets: {} }),
  };
}

interface Asked {
  readonly remote?: string;
  readonly branch?: string;
  readonly expected?: string | null;
}

/** A push of a new commit; without a branch of its own to a fresh one that stands at the initial commit. */
async function request({ remote = repository.folder, branch, expected = repository.initialCommit }: Asked = {}) {
  const name = branch ?? newName();
  if (branch === undefined) await repository.moveBranch(name, repository.initialCommit);
  return { remote, branch: name, commit: await newCommit(), repository: repository.workFolder, expected };
}

function newName(): string {
  return `release/${randomBytes(6).toString("hex")}`;
}

function newCommit(): Promise<string> {
  return repository.commit({ content: randomBytes(8).toString("hex"), message: "Release" });
}

function at(effect: AnyEffect, remote: string): AnyEffect {
  return { ...effect, payload: { ...effect.payload, remote } };
}

async function refs({ key, payload }: AnyEffect) {
  return {
    branch: await repository.ref(`refs/heads/${payload.branch}`),
    mark: await repository.ref(`refs/effects/${key}`),
  };
}

async function changes({ payload }: AnyEffect): Promise<number> {
  const moves = await inBare("reflog", "show", "--format=%H", `refs/heads/${payload.branch}`, "--");
  return moves.split("\n").filter((id) => id === payload.commit).length;
}

async function installHook(folder: string, name: string, script: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, name), script, { mode: 0o755 });
}

function inBare(...args: readonly string[]): Promise<string> {
  return runGit(args, { folder: repository.folder, environment: repository.environment });
}

function inWork() {
  return { folder: repository.workFolder, environment: repository.environment };
}
