/** `dev`: one process with a server, a ledger and a worker, which Ctrl-C ends, and whose data stays. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { cli, failing, ROOT, running, TASKS } from "./run.ts";

// mkdtemp's mode is for nobody else, and the user that runs the server for root must reach it.
const folder = await mkdtemp(join(tmpdir(), "pg-effects-dev-"));
await chmod(folder, 0o755);
after(() => rm(folder, { recursive: true }));

test("starts everything, keeps the password to a file, ends with SIGINT, and finds its ledger again", async () => {
  const first = await start();
  const connection = join(folder, "connection");
  const database = (await readFile(connection, "utf8")).trim();
  assert.equal((await stat(connection)).mode & 0o777, 0o600);
  const { password } = new URL(database);
  const { exit, stdout } = await cli(["enqueue", "sure", '{"note":"dev"}', "--name", "dev/1", "--wait", "20s"], {
    database,
  });
  assert.deepEqual([exit, stdout.includes("accepted via dispatch")], [0, true]);
  // Each command that it shows does what it shows, as it is printed.
  const shown = first.stdout().match(/^ {2}(export .*|.* (?:doctor|enqueue|list)\b.*)$/gm) ?? [];
  assert.equal(shown.length, 4, first.stdout());
  const typed = await shell(shown.join("\n"));
  assert.match(typed, /\nadmitted, unresolved since /); // the first operation of this folder loses every answer
  assert.match(typed, /\n +the connection was cut after the request\n/);
  assert.doesNotMatch(typed, /declined/);
  first.child.kill("SIGINT");
  const ended = await first.ended;
  assert.equal(ended.exit, 0);
  assert.ok(password.length > 20 && !`${ended.stdout}${ended.stderr}`.includes(password));
  assert.match(ended.stdout, /export DATABASE_URL="\$\(cat .*connection\)"/);
  const gone = await failing(["list"], { database });
  assert.deepEqual([gone.exit, gone.code], [1, "server_unreachable"]);

  const second = await start();
  const again = (await readFile(connection, "utf8")).trim();
  assert.equal((await cli(["show", "dev/1"], { database: again })).exit, 0);
  second.child.kill("SIGTERM");
  assert.equal((await second.ended).exit, 0);
});

test("notices that its Postgres was killed: says so, exits 1, and starts again with what was committed", async () => {
  const killed = await start();
  const [pid] = (await readFile(join(folder, "data", "postmaster.pid"), "utf8")).split("\n");
  process.kill(Number(pid), "SIGKILL");
  const { exit, stderr } = await killed.ended;
  assert.equal(exit, 1);
  const words = `Postgres \\(process ${pid}\\) ended by itself, by SIGKILL\\n {2}its log may say why: \\S+data\\.log; `;
  assert.match(stderr, new RegExp(`^postgres_ended {2}${words}`, "m"));

  const again = await start();
  const database = (await readFile(join(folder, "connection"), "utf8")).trim();
  assert.equal((await cli(["show", "dev/1"], { database })).exit, 0);
  again.child.kill("SIGINT");
  assert.equal((await again.ended).exit, 0);
});

/** What a person's shell prints for these lines, in the folder in which `dev` was started. */
async function shell(lines: string): Promise<string> {
  const { PATH } = process.env;
  const node = `${dirname(process.execPath)}:${PATH}`;
  const { stdout } = await promisify(execFile)("/bin/sh", ["-c", lines], { cwd: ROOT, env: { PATH: node, TZ: "UTC" } });
  return stdout;
}

function start() {
  // initdb and all migrations, on whatever machine.
  return running(["dev", "--folder", folder, "--tasks", TASKS], "Ctrl-C stops all of it", { readyMs: 90_000 });
}
