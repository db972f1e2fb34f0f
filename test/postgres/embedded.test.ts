import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { Client } from "pg";
import { prepareBinaries } from "../../src/postgres/binaries.ts";
import { type EmbeddedServer, startEmbedded } from "../../src/postgres/embedded.ts";
import { findPackage } from "../../src/postgres/package-files.ts";
import { freePort } from "../../src/postgres/port.ts";
import { serverUser } from "../../src/postgres/server-user.ts";
import { waitFor } from "../harness/wait.ts";

const isRoot = process.getuid?.() === 0;

describe("the embedded server", () => {
  let scratch: string;
  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), "pg-effects-test-"));
    // Where root runs the tests, the server's user must get through to the folders in it, and write temporary ones.
    await chmod(scratch, 0o777);
    // What is left behind can be seen only where nobody else leaves anything. The children inherit it.
    process.env.TMPDIR = scratch;
  });
  after(() => rm(scratch, { recursive: true }));

  test("it starts durable, answers its password only, and leaves nothing behind", async () => {
    const server = await startEmbedded({ settings: { application_name: "it's \\ a setting" } });
    try {
      assert.equal(await show(server, "fsync"), "on");
      assert.equal(await show(server, "synchronous_commit"), "on");
      assert.equal(await show(server, "max_pred_locks_per_relation"), "5000");
      assert.equal(await show(server, "timezone"), "UTC");
      assert.equal(await show(server, "server_encoding"), "UTF8");
      assert.equal(await show(server, "listen_addresses"), "127.0.0.1");
      assert.match(await show(server, "server_version"), /^18\./);
      const settings = await readFile(join(server.dataDirectory, "pg-effects.conf"), "utf8");
      assert.match(settings, /^application_name = 'it''s \\\\ a setting'$/m);
      await assert.rejects(query(server.connectionString.replace(/:[^:@]+@/, ":wrong@"), "select 1"), {
        code: "28P01",
      });
    } finally {
      await server.stop();
    }
    await server.stop();
    await assert.rejects(stat(dirname(server.dataDirectory)), { code: "ENOENT" });
    assert.equal(isAlive(server.processId), false);
  });

  test("missing library links and executable bits are made, by two starts at once", async () => {
    const installed = findPackage();
    const folder = join(scratch, "package");
    const { links } = await copyWithoutLinks(installed, folder);
    const servers = await Promise.all([1, 2].map(() => startEmbedded({ packageFolder: folder })));
    await Promise.all(servers.map((server) => server.stop()));
    assert.ok(links.length > 0, "the package lists links");
    for (const link of links) await stat(join(folder, link));
  });

  test("programs that the server's user cannot reach are run from a copy", {
    skip: !isRoot && "only root lends its server to another user",
  }, async () => {
    const hidden = join(scratch, "hidden");
    await mkdir(hidden, { mode: 0o700 });
    await copyWithoutLinks(findPackage(), join(hidden, "package"));
    const binaries = await prepareBinaries(await serverUser(undefined), join(hidden, "package"));
    assert.match(relative(scratch, binaries.postgres), /^pg-effects-.*-0\/native\/bin\/postgres$/);
  });

  test("a kept folder is found again with its data and password, also after its postmaster was killed", async () => {
    const dataDirectory = join(scratch, "kept");
    const first = await startEmbedded({ dataDirectory });
    await query(first.connectionString, "create table kept (word text); insert into kept values ('still here')");
    assert.equal((await stat(`${dataDirectory}.password`)).mode & 0o777, 0o600);
    process.kill(first.processId, "SIGKILL");
    const { code, message } = await first.died;
    assert.equal(code, "postgres_ended");
    assert.ok(message.includes(`process ${first.processId}`) && message.includes("by SIGKILL"), message);
    const second = await startEmbedded({ dataDirectory });
    try {
      assert.deepEqual(await query(second.connectionString, "select word from kept"), [{ word: "still here" }]);
    } finally {
      await second.stop();
      await first.stop();
    }
    await assert.rejects(startEmbedded({ dataDirectory, persistent: false }), { code: "postgres_start_failed" });
    assert.ok(await stat(dataDirectory));
  });

  test("a port that was lost is replaced, unless it was asked for", async () => {
    const rival = createServer().listen(0, "127.0.0.1");
    await once(rival, "listening");
    const taken = (rival.address() as { port: number }).port;
    try {
      const dataDirectory = join(scratch, "ports");
      const asked = startEmbedded({ dataDirectory, port: taken });
      await assert.rejects(asked, { code: "postgres_start_failed", message: /in use/ });
      const ports = [taken];
      const server = await startEmbedded({ dataDirectory, port: async () => ports.pop() ?? freePort() });
      await server.stop();
      assert.notEqual(server.port, taken);
    } finally {
      rival.close();
    }
  });

  test("a start that fails shows the server's own words and leaves nothing behind", async () => {
    const before = await temporaryFolders();
    await assert.rejects(startEmbedded({ settings: { no_such_setting: 1 } }), {
      name: "LedgerError",
      code: "postgres_start_failed",
      message: /unrecognized configuration parameter "no_such_setting"/,
    });
    assert.deepEqual(await temporaryFolders(), before);
  });

  // Together, because they mostly wait for the system to bury a killed process.
  describe("without its owner", { concurrency: true }, () => {
    test("a server does not outlive an owner that was killed, nor does its temporary folder", async () => {
      const owner = await startOwner("setInterval(() => {}, 1000)");
      owner.process.kill("SIGKILL");
      await ended(owner.server);
    });

    test("a running server does not keep its owner alive", async () => {
      const owner = await startOwner("");
      const [code] = await owner.exited;
      assert.equal(code, 0);
      await ended(owner.server);
    });
  });
});

/** The package as npm leaves it where install scripts are switched off and modes are lost. */
async function copyWithoutLinks(installed: string, folder: string): Promise<{ links: string[] }> {
  const listed = JSON.parse(await readFile(join(installed, "native", "pg-symlinks.json"), "utf8")) as {
    target: string;
  }[];
  const links = listed.map(({ target }) => target);
  const dropped = new Set(links.map((link) => join(installed, link)));
  await cp(installed, folder, { recursive: true, filter: (source) => !dropped.has(source) });
  for (const program of await readdir(join(folder, "native", "bin"))) {
    const path = join(folder, "native", "bin", program);
    const bytes = await readFile(path);
    await rm(path);
    await writeFile(path, bytes, { mode: 0o644 });
  }
  return { links };
}

/** Another process that starts a server, tells us which, and then does `rest`. */
async function startOwner(rest: string): Promise<{
  process: ChildProcess;
  exited: Promise<unknown[]>;
  server: EmbeddedServer;
}> {
  const module = JSON.stringify(new URL("../../src/postgres/embedded.ts", import.meta.url).href);
  const script = `
    import { startEmbedded } from ${module};
    const { processId, dataDirectory } = await startEmbedded();
    console.log(JSON.stringify({ processId, dataDirectory }));
    ${rest}`;
  const owner = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(owner, "exit");
  const [line] = (await once(createInterface(owner.stdout), "line")) as [string];
  return { process: owner, exited, server: JSON.parse(line) as EmbeddedServer };
}

/** Waits until the watcher has done its work: no postmaster, no folder. */
async function ended(server: EmbeddedServer): Promise<void> {
  const folder = dirname(server.dataDirectory);
  await waitFor("the postmaster has ended", () => !isAlive(server.processId));
  await waitFor("the temporary folder is gone", async () => !(await temporaryFolders()).includes(folder));
}

async function show(server: EmbeddedServer, setting: string): Promise<string> {
  const [row] = await query(server.connectionString, `select current_setting('${setting}') as value`);
  return String(row?.value);
}

async function query(connectionString: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString });
  // The postmaster is killed in one test; what its sessions then say is not the subject.
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Signal 0 asks only. */
function isAlive(processId: number): boolean {
  try {
    return process.kill(processId, 0);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ESRCH") return false;
    throw error;
  }
}

async function temporaryFolders(): Promise<string[]> {
  const names = await readdir(tmpdir());
  return names
    .filter((name) => name.startsWith("pg-effects-"))
    .map((name) => join(tmpdir(), name))
    .sort();
}
