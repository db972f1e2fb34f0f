/** `recovery` and `audit`: a ledger that is closed, what its owner says of it, and whether the record is whole. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { cli, cliJson } from "./run.ts";

const book = await openTestLedger({ sound: false });
const database = book.connectionString;
const run = (...args: readonly string[]) => cli(args, { database });
const { operation } = countedOperation("charge_card");
let folder = "";

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "pg-effects-test-"));
  book.atEnd(() => rm(folder, { recursive: true }));
  const worker = await book.work({ operations: [operation] });
  await book.ended(await book.ledger.enqueue(operation, { to: "first" }, { name: "first" }));
  await worker.stop();
});

describe("recovery", () => {
  test("an open ledger says so, and there is nothing to acknowledge", async () => {
    const { exit, stdout } = await run("recovery", "show");
    assert.equal(exit, 0, stdout);
    assert.match(stdout, /standing +open: this database is the ledger it was/);
    const refused = await run("recovery", "acknowledge", "--as", "lost-nothing", "--reason", "test");
    assert.equal(refused.exit, 1);
    assert.match(refused.stderr, /nothing to acknowledge/);
  });

  test("closed on purpose it exits 6 until it is acknowledged; a dry run opens nothing", async () => {
    assert.equal((await run("recovery", "close", "--reason", "switchover")).exit, 0);
    const shown = await run("recovery", "show");
    assert.equal(shown.exit, 6);
    assert.match(shown.stdout, /closed: closed by its owner/);
    const acknowledge = ["recovery", "acknowledge", "--as", "lost-nothing", "--reason", "switched"];
    assert.match((await run(...acknowledge, "--dry-run")).stdout, /nothing is changed/);
    assert.equal((await run("recovery", "show")).exit, 6);
    assert.equal((await run(...acknowledge)).exit, 0);
    const after = await cliJson<{ gap: string | null; recoveries: unknown[] }>(["recovery", "show"], { database });
    assert.deepEqual([after.exit, after.document.gap, after.document.recoveries.length], [0, null, 1]);
  });
});

describe("audit", () => {
  const keys = generateKeyPairSync("ed25519");
  const file = async (name: string, pem: string) => {
    await writeFile(join(folder, name), pem);
    return join(folder, name);
  };

  test("a checkpoint is signed with a key from outside, and verified with its public half", async () => {
    const key = await file("auditor.pem", keys.privateKey.export({ format: "pem", type: "pkcs8" }).toString());
    const made = await run("audit", "checkpoint", "--key", key);
    assert.equal(made.exit, 0, made.stderr);
    assert.match(made.stdout, /^checkpoint 1 {2}1 effects moved {2}root [0-9a-f]{64} {2}signed by [0-9a-f]{32}$/m);
    const pub = await file("auditor.pub.pem", keys.publicKey.export({ format: "pem", type: "spki" }).toString());
    const verified = await run("audit", "verify", "--public-key", pub);
    assert.equal(verified.exit, 0, verified.stdout);
    assert.match(verified.stdout, /the record is whole; 1 signatures verified/);
    assert.match((await run("audit", "verify")).stderr, /1 checkpoints are signed by keys that were not given/);
  });

  test("what does not hold is named, closes admission, and is acknowledged by the owner", async () => {
    await book.sql(
      "set session_replication_role = replica; update effects_ledger.event set by_role = 'nobody' where seq = 1",
    );
    const reported = await run("audit", "verify", "--report-only");
    assert.equal(reported.exit, 1);
    assert.match(reported.stdout, /each event hashes to its hash/, reported.stderr);
    assert.equal((await run("recovery", "show")).exit, 0);
    const verified = await run("audit", "verify");
    assert.equal(verified.exit, 1);
    assert.match(verified.stdout, /each event hashes to its hash/, verified.stderr);
    assert.match((await run("recovery", "show")).stdout, /violation +found/);
    await book.work({ operations: [operation] });
    const id = await book.ledger.enqueue(operation, { to: "second" });
    const waits = "select denial_code from audit.effects where effect_id = $1";
    await waitFor("it is denied", async () => (await book.value(waits, [id])) === "violation_unacknowledged");
    assert.equal((await run("recovery", "acknowledge", "--as", "violation", "--reason", "a test did it")).exit, 0);
    assert.equal((await book.ended(id)).state, "accepted");
  });
});
