/** `dev`: one process with a server, a ledger and a worker, which Ctrl-C ends, and whose data stays. */
import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { cli, failing, running, TASKS } from "./run.ts";

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

function start() {
  return running(["dev", "--folder", folder, "--tasks", TASKS], "Ctrl-C stops all of it");
}
