/** `reconciliation list` and `show`: what one asked, what it was told, from when absence proves something, what has no answer. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { absent, accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";
import { refusal } from "./refusal.ts";
import { cli, cliJson } from "./run.ts";

const book = await openTestLedger();
const database = book.connectionString;
const run = (...args: readonly string[]) => cli(args, { database });
const answer = latch();
book.atEnd(() => answer.open());

const lost = () => unknown("the line went dead");
const later = countedOperation("send_slowly", {
  contract: { absence: { conclusiveAfterMs: 3_600_000, endedBy: "dispatch" } },
  dispatch: lost,
  reconcile: async () => absent({ matches: 0 }),
});
const mute = countedOperation("ask_in_vain", {
  dispatch: lost,
  reconcile: async ({ target }) => {
    if (target === "mute") await answer.opened;
    return accepted({ receipt: target });
  },
});
const orphan = countedOperation("left_alone", { dispatch: lost, reconcile: async () => absent({}) });

before(async () => {
  const registering = await book.work({ operations: [orphan.operation] });
  await doubted(orphan, "alone");
  await registering.stop();
  await book.work({ operations: [later.operation, mute.operation] });
});

async function doubted({ operation }: typeof later, name: string): Promise<string> {
  const id = await book.ledger.enqueue(operation, { to: name }, { name });
  await book.ended(id);
  return id;
}
const ended = (id: string) =>
  waitFor("it has ended", () =>
    book.value("select ended from audit.reconciliations where reconciliation_id = $1", [id]),
  );

test("absence that proves nothing yet names the moment from which it does, here and in unresolved", async () => {
  await doubted(later, "later/1");
  const reconciled = await run("reconcile", "--operation", "send_slowly", "--deadline", "20s");
  assert.equal(reconciled.exit, 0); // nothing became uncertain
  assert.match(
    reconciled.stdout,
    /absence is conclusive from\nsend_slowly +absent +nothing +1 +\S+.*: ask again then\n/,
  );
  const shown = await run("reconciliation", "show");
  assert.equal(shown.exit, 3);
  assert.match(shown.stdout, /^reconciliation [0-9a-f-]{36} {2}operation send_slowly, asked for by \w+\n/);
  assert.match(shown.stdout, /\n {2}deadline +\S+, which nobody extends\n {2}standing +finished /);
  assert.match(shown.stdout, /later\/1 +send_slowly +\S+ +lookup +absent +nothing +\d+ ms +\S+.* \{"matches":0\}\n/);
  assert.match(shown.stdout, /\nexit 3 {6}1 in scope is unresolved: pg-effects unresolved\n$/);
  const unresolved = await run("unresolved");
  assert.match(unresolved.stdout, /later\/1 .* reconcile from \S+.* on, when absence is conclusive\n/);
});

test("what was asked and has no answer is shown so, while it lasts", async () => {
  const id = await doubted(mute, "mute");
  const reconciliation = await book.ledger.reconcile({ effect: id, deadlineMs: 60_000 });
  await waitFor("the recipient was asked", () => mute.asked("mute") > 0);
  const [shown, unresolved] = await Promise.all([run("reconciliation", "show", reconciliation), run("unresolved")]);
  assert.equal(shown.exit, 3);
  assert.match(shown.stdout, /\n {2}standing +is asking until /);
  assert.match(shown.stdout, /\nmute +ask_in_vain +\S+ +lookup +no answer\n/);
  assert.match(unresolved.stdout, new RegExp(`it is being asked: reconciliation ${reconciliation.slice(-8)}\n`));
  answer.open();
  await ended(reconciliation);
  const after = await cliJson<{ recorded: string; inspections: { report: string; deadline: string }[] }>(
    ["reconciliation", "show", reconciliation.slice(-8)],
    { database },
  );
  assert.deepEqual([after.exit, after.document.recorded], [0, "1"]);
  assert.deepEqual(
    after.document.inspections.map(({ report }) => report),
    ["accepted"],
  );
});

test("what was not reached is named, and exits 5 once the deadline has passed", async () => {
  const reconciliation = await book.ledger.reconcile({ operation: "left_alone", deadlineMs: 300 });
  await ended(reconciliation);
  const { exit, stdout } = await run("reconciliation", "show", reconciliation);
  assert.equal(exit, 5);
  assert.match(stdout, /\n {2}standing +expired \S+.*: no worker took it\n/);
  assert.match(stdout, /\nnot reached +operation +state\nalone +left_alone +admitted, unresolved\n/);
  assert.match(stdout, /\nexit 5 {6}1 in scope is unresolved, not asked about: 1: pg-effects unresolved\n$/);
});

test("the list is newest first, since when it was asked for", async () => {
  const all = await run("reconciliation", "list");
  assert.equal(all.exit, 0);
  const lines = all.stdout.trimEnd().split("\n").slice(1);
  assert.equal(lines.length, 3);
  assert.match(
    lines[0] ?? "",
    /^[0-9a-f]{8} +\S+ by \w+ +operation left_alone +lookup +expired \S+.*: no worker took it +1 +0 +0 +0 +1$/,
  );
  assert.match(lines[1] ?? "", /effect [0-9a-f]{8} +lookup +finished \S+ +1 +1 +1 +0 +0$/);
  const none = await cliJson<unknown[]>(["reconciliation", "list", "--since", "2099-01-01"], { database });
  assert.deepEqual([none.exit, none.document], [0, []]);
  assert.match(none.stderr, /nobody asked/);
});

test("one that there is not is refused", async () => {
  for (const given of ["deadbeef", "nothing", "00000000-0000-7000-8000-000000000000"]) {
    const { exit, code } = await refusal(["reconciliation", "show", given], database);
    assert.deepEqual([exit, code], [4, "reconciliation_unknown"], given);
  }
});
