/** `status`: the one screen, and what it exits with. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accepted, failed, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";
import { cli, cliJson, running } from "./run.ts";

// The last test closes the ledger, which audit.violations then lists.
const book = await openTestLedger({ sound: false });
const database = book.connectionString;
const run = (...args: readonly string[]) => cli(args, { database });
const answer = latch();
book.atEnd(() => answer.open());
const { operation } = countedOperation("charge_card", {
  contract: { failures: { declined: { effect: "none" } } },
  dispatch: async ({ target }) => {
    if (target === "held") await answer.opened;
    if (target === "lost") return unknown("the line went dead");
    return target === "declined" ? failed({ code: "declined" }) : accepted({ receipt: target });
  },
});
const mail = countedOperation("mail_send").operation;
const orphan = countedOperation("left_alone").operation;

const enqueue = (to: string, cents = 4_000) => book.ledger.enqueue(operation, { to, cents }, { task: "shop" });

test("an empty ledger: nothing is wrong, and nobody is there", async () => {
  const { exit, stdout } = await run("status");
  assert.equal(exit, 0);
  assert.equal(
    stdout,
    "default  ledger fit   protected 0 of 0 operations   no worker is alive\n" +
      "last hour   accepted 0  failed 0  no_effect 0  uncertain 0  declined 0\n",
  );
});

test("what waits for what, what is in flight, what is in doubt and held for it, and what ended in the last hour", async () => {
  const registering = await book.work({ operations: [orphan] });
  await registering.stop();
  await book.work({ operations: [operation, mail] });
  await book.ledger.openTask("shop", { budgets: { usd_cents: 20_000n } });
  for (const to of ["booked", "declined"]) await book.ended(await enqueue(to));
  await book.ended(await enqueue("too much", 30_000));
  for (const to of ["lost", "lost"]) await book.ended(await enqueue(to));
  const held = await enqueue("held");
  await waitFor("it is out", async () => (await book.ledger.observe(held))?.state === "admitted");
  await book.ledger.pause({ operation: "mail_send", reason: "INC-91" });
  const paused = await book.ledger.enqueue(mail, { to: "ana" });
  const waits = "select waiting_for is not distinct from 'paused' from audit.effects where effect_id = $1";
  await waitFor("it waits", () => book.value<boolean>(waits, [paused]));
  await book.ledger.enqueue(orphan, { to: "nobody" });

  const { exit, stdout } = await run("status");
  assert.equal(exit, 3);
  const lines = stdout.split("\n");
  assert.match(
    lines[0] ?? "",
    /^default {2}ledger fit {3}protected 0 of 3 operations {3}workers 1, release test, heartbeat \d+ \w+$/,
  );
  assert.match(
    lines[1] ?? "",
    /^operation +waiting +oldest +waiting for +in flight +unresolved +oldest +held in doubt$/,
  );
  assert.match(lines[2] ?? "", /^charge_card +0 +1 +2 +\d+ \w+ +8000 usd_cents$/);
  assert.match(lines[3] ?? "", /^left_alone +1 +\d+ \w+ +no worker has it +0 +0$/);
  assert.match(lines[4] ?? "", /^mail_send +1 +\d+ \w+ +paused by \w+, INC-91 +0 +0$/);
  assert.equal(lines[5], "last hour   accepted 1  failed 1  no_effect 0  uncertain 0  declined 1 (denied 1)");
  assert.equal(lines[6], "exit 3      2 effects are unresolved: pg-effects unresolved");

  const { document } = await cliJson<{ operations: object[]; unresolved: string; exit: number }>(["status"], {
    database,
  });
  assert.partialDeepStrictEqual(document, {
    closed: null,
    protected: { protected: "0", of: "3" },
    unresolved: "2",
    exit: 3,
    operations: [
      { operation: "charge_card", waiting: "0", in_flight: "1", unresolved: "2", held: { usd_cents: "8000" } },
      { operation: "left_alone", waiting: "1", has_worker: false },
      { operation: "mail_send", waiting: "1", waiting_for: { paused: "1" } },
    ],
  });
  answer.open();
  await book.ended(held);
});

test("--watch looks again until Ctrl-C, and ends nothing but the looking", async () => {
  const watching = await running(["status", "--watch", "--json"], "\n", { database });
  await waitFor("it has looked twice", () => watching.stdout().split("\n").length > 2);
  watching.child.kill("SIGINT");
  const { exit, stdout } = await watching.ended;
  assert.equal(exit, 130);
  for (const line of stdout.trimEnd().split("\n"))
    assert.equal((JSON.parse(line) as { ledger: string }).ledger, "default");
});

test("every operation of a strict ledger is protected; a closed ledger exits 6, whatever is unresolved", async () => {
  await book.sql("select effects.set_ledger(true, 'test')");
  assert.match((await run("status")).stdout, /^default {2}ledger fit {3}protected 3 of 3 operations /);
  await book.sql("update effects_ledger.identity set strict = strict"); // as a restore does, this renews its xmin
  const { exit, stdout } = await run("status");
  assert.equal(exit, 6);
  assert.match(stdout, /^default {2}ledger closed: recovery_unacknowledged {3}/);
  assert.match(stdout, /\nexit 6 {6}.*\n {12}2 effects are unresolved: pg-effects unresolved\n$/);
});
