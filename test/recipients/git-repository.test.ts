import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { access, chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { type GitRun, tryGit } from "../../src/demo/recipients/git-command.ts";
import { startGitRepository } from "../../src/demo/recipients/git-repository.ts";
import { waitFor } from "../harness/wait.ts";
import { connectPlain } from "./support.ts";

const MAIN = "refs/heads/main";
const PUSH_REQUEST = contains(/^POST \S*\/git-receive-pack /);

/**
 * libcurl sends a request again by itself when a kept-alive connection is reset before the first byte of its answer, a
 * push too: the recipient then has two, and git reports what the second one was told. A connection of its own for each
 * request ends that.
 */
const NO_SECOND_SEND = ["-c", "http.extraHeader=Connection: close"];

const started: { stop(): Promise<void> }[] = [];
after(() => Promise.all(started.map((each) => each.stop())));

async function startRepository() {
  const repository = await startGitRepository();
  const proxy = await startFaultProxy({ target: repository });
  started.push(repository, proxy);
  const git = (...args: string[]): Promise<GitRun> =>
    tryGit(args, { folder: repository.workFolder, environment: repository.environment });
  /** A push by a real git, through the proxy. */
  const push = (...args: string[]) =>
    git(...NO_SECOND_SEND, "push", "--porcelain", repository.urlAt(proxy.port), ...args);
  return { repository, proxy, git, push };
}

describe("the repository", () => {
  test("a commit is published by one push, and only then", async () => {
    const { repository, git, push } = await startRepository();
    const commit = await repository.commit({ content: "1.0.0\n", message: "Release 1.0.0" });
    assert.equal(await repository.ref(MAIN), repository.initialCommit);
    const run = await push("--atomic", `--force-with-lease=main:${repository.initialCommit}`, `${commit}:${MAIN}`);
    assert.equal(run.exitCode, 0, run.stderr);
    assert.equal(await repository.ref(MAIN), commit);
    assert.equal(repository.pushes, 1);
    assert.match((await git("ls-remote", repository.url, MAIN)).stdout, new RegExp(`^${commit}\t`));
    assert.equal((await git("show", `${commit}:release.txt`)).stdout, "1.0.0\n");
    assert.match((await git("show", `${commit}:README.md`)).stdout, /./);
    assert.equal(await repository.ref("refs/heads/absent"), null);
  });

  test("a push larger than one buffer is one push", async () => {
    const { repository, push } = await startRepository();
    // Random, so that it stays above git's http.postBuffer (1 MiB): git probes first and then sends in chunks.
    const content = randomBytes(1_500_000).toString("base64");
    const commit = await repository.commit({ content, message: "Large" });
    const pushed = await push(`${commit}:${MAIN}`);
    assert.equal(pushed.exitCode, 0, pushed.stderr);
    assert.equal(repository.pushes, 1);
    assert.equal(await repository.ref(MAIN), commit);
  });

  test("deletions and non-fast-forwards are refused, by force too", async () => {
    const { repository, push } = await startRepository();
    const first = await repository.commit({ content: "1\n", message: "One" });
    const rival = await repository.commit({ content: "2\n", message: "Two" });
    assert.equal((await push(`${first}:${MAIN}`)).exitCode, 0);
    assert.match((await push("--force", `${rival}:${MAIN}`)).stdout, /^!.*non-fast-forward/m);
    assert.match((await push(`:${MAIN}`)).stdout, /^!.*deletion prohibited/m);
    assert.equal(await repository.ref(MAIN), first);
    assert.equal(repository.pushes, 3);
  });

  test("a branch that somebody else moved refuses a lease on the old commit, and moving it is no push", async () => {
    const { repository, push } = await startRepository();
    const mine = await repository.commit({ content: "mine\n", message: "Mine" });
    const theirs = await repository.commit({ content: "theirs\n", message: "Theirs" });
    await repository.moveBranch("main", theirs);
    const run = await push(`--force-with-lease=main:${repository.initialCommit}`, `${mine}:${MAIN}`);
    assert.match(run.stdout, /^!.*stale info/m);
    assert.equal(await repository.ref(MAIN), theirs);
    assert.equal(repository.pushes, 0); // git saw it in the advertised refs and sent nothing
  });
});

describe("on the wire", () => {
  test("a cut reply leaves git with an error and the ref moved", async () => {
    const { repository, proxy, push } = await startRepository();
    const commit = await repository.commit({ content: "1\n", message: "One" });
    const fault = proxy.cutReply({ to: PUSH_REQUEST });
    const run = await push(`${commit}:${MAIN}`);
    assert.notEqual(run.exitCode, 0);
    await fault.reached;
    // The first byte of the answer may come before the ref is moved; the recipient is left to finish.
    const deadline = performance.now() + 5_000;
    while ((await repository.ref(MAIN)) !== commit) assert.ok(performance.now() < deadline, "the ref never moved");
    assert.equal(repository.pushes, 1);
  });

  test("a cut push leaves git with an error and the ref untouched", async () => {
    const { repository, proxy, push } = await startRepository();
    const commit = await repository.commit({ content: "1\n", message: "One" });
    proxy.cutBeforeRequest({ match: PUSH_REQUEST });
    assert.notEqual((await push(`${commit}:${MAIN}`)).exitCode, 0);
    assert.equal(await repository.ref(MAIN), repository.initialCommit);
    assert.equal(repository.pushes, 0);
    assert.equal(proxy.remainingFaults, 0);
    assert.equal((await push(`${commit}:${MAIN}`)).exitCode, 0);
  });

  test("a branch that moves while the push is held on the wire is refused by the server", async () => {
    const { repository, proxy, push } = await startRepository();
    const mine = await repository.commit({ content: "mine\n", message: "Mine" });
    const theirs = await repository.commit({ content: "theirs\n", message: "Theirs" });
    const hold = proxy.holdRequest({ match: PUSH_REQUEST });
    const pushing = push("--atomic", `--force-with-lease=main:${repository.initialCommit}`, `${mine}:${MAIN}`);
    await hold.reached;
    await repository.moveBranch("main", theirs);
    hold.release();
    const run = await pushing;
    assert.notEqual(run.exitCode, 0);
    assert.match(run.stdout, /^!.*remote rejected/m);
    assert.equal(await repository.ref(MAIN), theirs);
    assert.equal(repository.pushes, 1);
  });
});

describe("what is missing is told", () => {
  test("no git", async () => {
    await assert.rejects(startGitRepository({ git: "git-that-is-not-installed" }), { code: "git_missing" });
  });

  test("a git without http-backend", async () => {
    const folder = await mkdtemp(join(tmpdir(), "pg-effects-test-"));
    try {
      const git = join(folder, "git");
      await writeFile(git, `#!/bin/sh\necho "${folder}"\n`);
      await chmod(git, 0o755);
      await assert.rejects(startGitRepository({ git }), { code: "git_http_backend_missing" });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

test("stop closes kept-alive connections at once and removes the folders", async () => {
  const repository = await startGitRepository();
  const idle = await connectPlain(repository.port);
  idle.socket.write(`GET /repository.git/info/refs?service=git-receive-pack HTTP/1.1\r\nHost: loopback\r\n\r\n`);
  await waitFor("the advertisement", () => idle.received().includes(MAIN));
  await repository.stop();
  await repository.stop();
  await idle.ended;
  await assert.rejects(access(repository.folder), { code: "ENOENT" });
});
