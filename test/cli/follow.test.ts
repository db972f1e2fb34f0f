/** `follow`: one effect, or all that was declined in an outage; never what may have happened. And what a cleanup looks like. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, cleaned, notSent, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { waitFor } from "../harness/wait.ts";
import { openRoleLedger } from "../roles/with-roles.ts";
import { cli, cliJson, failing } from "./run.ts";

const subject = await openRoleLedger();
const { ledger, connectionString: database } = subject;
const send = countedOperation("send_note", {
  dispatch: ({ target }) => {
    if (target.startsWith("lost")) return unknown("the line went dead");
    return send.hits(target) === 1 && target.startsWith("refused")
      ? notSent({ code: "refused_connection" })
      : accepted({ receipt: `of ${target}` });
  },
});
const staged = countedOperation("send_staged", {
  contract: { cleanup: "required" },
  cleanup: ({ target }) => {
    if (target === "away") throw new Error("the staging area is away");
    return cleaned({ removed: 1 });
  },
});
const run = (...args: readonly string[]) => cli(args, { database });

before(async () => {
  await subject.work({ operations: [send.operation, staged.operation] });
});

async function refused(name: string): Promise<string> {
  const id = await ledger.enqueue(send.operation, { to: `refused ${name}` }, { name });
  await subject.ended(id);
  return id;
}

test("one effect is tried again, and its name stands for the one that tries it", async () => {
  const id = await refused("order/1");
  const dry = await run("follow", "order/1", "--dry-run");
  assert.deepEqual([dry.exit, dry.stdout], [0, "order/1 would be tried again; nothing is changed\n"]);
  const { exit, document } = await cliJson<{ follows: string; effect_id: string }>(
    ["follow", "order/1", "--reason", "they are back"],
    { database },
  );
  assert.equal(exit, 0);
  assert.equal(document.follows, id);
  assert.equal((await subject.ended(document.effect_id)).state, "accepted");
  const shown = await run("show", "order/1");
  assert.match(shown.stdout, new RegExp(`^  follows +${id.slice(-8)}: they are back$`, "m"));
  assert.match(shown.stdout, /^order\/1 {2}send_note 1 {2}accepted/);
  assert.match((await run("show", id)).stdout, new RegExp(`^  followed by +${document.effect_id.slice(-8)}$`, "m"));
  const { document: found } = await cliJson<object[]>(["find", "order/1"], { database });
  assert.equal(found.length, 2);
});

test("what may have happened is refused, with what would have to be done first", async () => {
  const id = await ledger.enqueue(send.operation, { to: "lost" }, { name: "order/2" });
  await subject.ended(id);
  const { exit, code, message } = await failing(["follow", "order/2"], { database });
  assert.deepEqual([exit, code], [4, "PE107"]);
  assert.match(message, /nobody knows whether it happened$/);
});

test("all that expired since a moment is tried again, each once, and nothing else", async () => {
  await ledger.pause({ operation: "send_note", reason: "an outage" });
  const names = ["night/1", "night/2", "night/3"];
  const expiresAt = new Date(Date.now() + 1_500);
  const ids: string[] = [];
  for (const name of names) ids.push(await ledger.enqueue(send.operation, { to: name }, { name, expiresAt }));
  const cancelled = await ledger.enqueue(send.operation, { to: "cancelled" }, { name: "night/4" });
  await ledger.cancel(cancelled);
  for (const id of ids) await waitFor("it expires", async () => (await ledger.observe(id))?.state === "declined");
  await ledger.resume({ operation: "send_note", reason: "it is over" });
  assert.equal((await ledger.observe(await ledger.follow(ids[2] ?? "")))?.state, "requested");

  const many = ["follow", "--declined", "expired", "--since", "1h"];
  const dry = await run(...many, "--dry-run");
  assert.equal(dry.exit, 0);
  assert.equal(
    dry.stdout,
    "night/1 (send_note, binding_expired)  would be tried again\n" +
      "night/2 (send_note, binding_expired)  would be tried again\n" +
      "followed 2, refused 0; a dry run: nothing is changed\n",
  );
  assert.equal(
    (await run(...many, "--operation", "send_staged")).stdout,
    "nothing was declined so that nobody tried again\n",
  );
  const { exit, stdout } = await run(...many, "--operation", "send_note");
  assert.equal(exit, 0);
  assert.match(stdout, /^night\/1 \(send_note, binding_expired\) {2}is tried again as [0-9a-f]{8}$/m);
  assert.match(stdout, /^followed 2, refused 0$/m);
  for (const name of names) await waitFor("it is sent", () => send.hits(name) === 1);
  assert.equal((await run(...many)).stdout, "nothing was declined so that nobody tried again\n");
  assert.equal(send.hits("cancelled"), 0);
});

test("a service without the schema audit follows its own", async () => {
  const shop = await subject.login("shop", "service");
  const own = await shop.open();
  const id = await own.enqueue(send.operation, { to: "refused own" }, { name: "own/1" });
  await subject.ended(id);
  const { exit, stdout } = await cli(["follow", "own/1"], { database: shop.connectionString });
  assert.equal(exit, 0);
  assert.equal((await subject.ended(stdout.trim())).state, "accepted");
});

test("wrong usage is said as such", async () => {
  for (const args of [
    ["follow"],
    ["follow", "order/1", "--declined", "expired", "--since", "1h"],
    ["follow", "--declined", "expired"],
    ["follow", "order/1", "--operation", "send_note"],
  ]) {
    const { exit, code } = await failing(args, { database });
    assert.deepEqual([exit, code], [2, "usage_invalid"], args.join(" "));
  }
  const { exit, code } = await failing(["follow", "--declined", "expired", "--since", "1h", "--operation", "nobodys"], {
    database,
  });
  assert.deepEqual([exit, code], [4, "operation_unknown"]);
});

test("a cleanup that is owed is on the one screen, and in the effect's story", async () => {
  const done = await ledger.enqueue(staged.operation, { to: "somebody" }, { name: "staged/1" });
  const away = await ledger.enqueue(staged.operation, { to: "away" }, { name: "staged/2" });
  const tried = "select last_fault is not null from audit.obligations where effect_id = $1";
  await waitFor("the other one failed", () => subject.value<boolean>(tried, [away]));
  const closed = "select closed_at is not null from audit.obligations where effect_id = $1";
  await waitFor("one is done", () => subject.value<boolean>(closed, [done]));
  assert.match((await run("status")).stdout, /^cleanup {5}1 owed, the oldest for \d/m);
  assert.match((await run("show", "staged/1")).stdout, /^ {2}cleanup +done /m);
  assert.match(
    (await run("show", "staged/2")).stdout,
    /^ {2}cleanup +owed since .*, tried (once|\d+ times): Error: the staging area is away$/m,
  );
});
