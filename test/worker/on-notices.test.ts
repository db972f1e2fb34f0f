/** Watching an inbox: consumers that fail and are cut, and what they have applied when all is quiet (protocol, section 6). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { Inbox, Notice, NoticesHandler } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const { operation } = countedOperation("send_note", {
  dispatch: ({ target }) =>
    target.startsWith("lost")
      ? { report: "unknown", reason: "lost" }
      : { report: "accepted", proof: { receipt: target } },
  reconcile: async ({ target }) => ({ report: "accepted", proof: { receipt: target } }),
});

before(async () => {
  await subject.work({ operations: [operation] });
  await subject.sql("create table seen (effect_id uuid primary key, seq int not null, state text not null)");
  await subject.sql("create table applied (effect_id uuid, seq int, primary key (effect_id, seq))");
});

const connections = (inbox: string) =>
  subject.value<string>("select count(*) from pg_stat_activity where application_name = $1", [
    `pg-effects inbox ${inbox}`,
  ]);
const waitingIn = (inbox: string) =>
  subject.value<string>("select count(*) from effects_ledger.notice where inbox = $1", [inbox]);
async function watch(inbox: string, handler: NoticesHandler, max = 100): Promise<Inbox & { readonly log: string[] }> {
  const log: string[] = [];
  const watched = await ledger.onNotices(inbox, handler, { max, log: (level, line) => log.push(`${level}: ${line}`) });
  subject.atEnd(() => watched.stop());
  return { ...watched, log };
}
/** A notice at once: something that waits is cancelled. */
async function give(inbox: string): Promise<string> {
  const notBefore = new Date(Date.now() + 600_000);
  const id = await ledger.enqueue(operation, { to: "later" }, { notify: inbox, notBefore });
  assert.equal(await ledger.cancel(id), "declined");
  return id;
}

test("four consumers that throw and are cut apply every standing once, and end on none that is stale", async () => {
  const count = { batches: 0, thrown: 0, cut: 0 };
  /** As an application would: it keeps each effect's highest seq, by its own rows in the batch's transaction. */
  const consume: NoticesHandler = async (notices, client) => {
    const batch = ++count.batches;
    for (const { effectId, seq, state } of notices) {
      const { rowCount } = await client.query(
        `insert into seen as s (effect_id, seq, state) values ($1, $2, $3)
         on conflict (effect_id) do update set seq = excluded.seq, state = excluded.state where s.seq < excluded.seq`,
        [effectId, seq, state],
      );
      if (rowCount === 1) await client.query("insert into applied values ($1, $2)", [effectId, seq]);
    }
    if (batch % 5 === 2) {
      count.thrown += 1;
      throw new Error("the consumer's own fault");
    }
    if (batch % 7 === 3) {
      count.cut += 1;
      await client.query("select pg_terminate_backend(pg_backend_pid())");
    }
    if (batch % 11 === 4) {
      // Somebody else's, in whatever it is doing: waiting, taking, or committing.
      await subject.sql(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'pg-effects inbox orders' order by state_change limit 1`,
      );
      count.cut += 1;
    }
  };
  const inboxes = await Promise.all(Array.from({ length: 4 }, () => watch("orders", consume, 3)));

  const requests = Array.from({ length: 120 }, (_, place) => ({
    input: { to: `${["lost", "sent", "sent"][place % 3]}/${place}` },
    notify: "orders",
    task: "default",
  }));
  const ids = (await ledger.enqueueMany(operation, requests)).map(({ effectId }) => effectId);
  for (const id of ids) await subject.ended(id);
  await ledger.reconcile({ operation: "send_note", deadlineMs: 60_000 });
  const open = "select count(*) from audit.effects where effect_id = any ($1) and state <> 'accepted'";
  await waitFor("all are accepted", async () => (await subject.value(open, [ids])) === "0");
  await waitFor("the inbox is empty", async () => (await waitingIn("orders")) === "0", { timeoutMs: 60_000 });
  await Promise.all(inboxes.map(({ stop }) => stop()));

  assert.ok(count.thrown > 3 && count.cut > 3, JSON.stringify(count));
  const stale = await subject.sql(
    `select s.* from seen s right join effects_ledger.standing n using (effect_id)
      where n.effect_id = any ($1) and (s.seq, s.state) is distinct from (n.seq, n.state)`,
    [ids],
  );
  assert.deepEqual(stale, []);
  // The key of `applied` refuses a standing a second time; here, that what was applied really was a standing.
  const strange = await subject.value(
    "select count(*) from applied a where not exists (select from audit.events v where v.effect_id = a.effect_id and v.seq = a.seq)",
  );
  assert.equal(strange, "0");
  assert.ok(
    Number(await subject.value("select count(*) from applied")) > 120,
    "doubt was applied too, and then its end",
  );
  assert.ok(
    inboxes.every(({ log }) =>
      log.every((line) => /^warning: the inbox orders(, with effect [0-9a-f-]{36},)? is/.test(line)),
    ),
  );
});

test("a consumer that waits is told at once, and does not find out by looking now and then", async () => {
  const taken: Notice[] = [];
  await watch("prompt", (notices) => {
    taken.push(...notices);
  });
  const began = performance.now();
  for (let round = 1; round <= 20; round++) {
    const id = await give("prompt");
    await waitFor("it was told", () => taken.some(({ effectId }) => effectId === id));
  }
  // A look each two seconds would need some 20 s for these.
  assert.ok(performance.now() - began < 15_000, `${performance.now() - began} ms`);
});

test("what a handler refuses is handed over again, and the log names it; what it accepts is gone", async () => {
  let tries = 0;
  const { log } = await watch("refused", ([notice]) => {
    if (notice && ++tries <= 3) throw new Error("no room");
  });
  const id = await give("refused");
  await waitFor("it was taken", async () => tries > 3 && (await waitingIn("refused")) === "0");
  assert.equal(log.length, 3);
  for (const [place, line] of log.entries()) {
    const again = `the inbox refused, with effect ${id}, is looked at again in ${100 * 2 ** place} ms: `;
    assert.ok(line.includes(again) && line.includes("no room"), line);
  }
});

test("a handler that swallows a statement's error has taken nothing", async () => {
  let tries = 0;
  const { log } = await watch("swallowed", async (_notices, client) => {
    if (++tries === 1) await client.query("select 1 / 0").catch(() => {});
  });
  await give("swallowed");
  await waitFor("it was handed over again", async () => tries > 1 && (await waitingIn("swallowed")) === "0");
  assert.equal(tries, 2);
  assert.match(log.join(), /its error was swallowed: nothing of it stands/);
});

test("what a handler requests stands together with the notices being gone", async () => {
  const client = await ledger.onNotices("chain", async (notices, transaction) => {
    for (const { effectId } of notices) {
      await ledger.enqueue(operation, { to: "next" }, { client: transaction, name: `after ${effectId}` });
    }
  });
  const id = await give("chain");
  const found = await waitFor("the next one was requested", () => ledger.find({ name: `after ${id}` }));
  assert.equal((await subject.ended(found.effectId)).state, "accepted");
  await client.stop();
});

test("a consumer that is stopped finishes its batch, takes no more, and closes its connection", async () => {
  const gate = latch();
  const started = latch();
  const taken: string[] = [];
  const inbox = await watch("stopped", async (notices) => {
    started.open();
    await gate.opened;
    taken.push(...notices.map(({ effectId }) => effectId));
  });
  const first = await give("stopped");
  await started.opened;
  const second = await give("stopped");
  const stopped = inbox.stop();
  gate.open();
  await stopped;
  await inbox.ended;
  assert.deepEqual(taken, [first]);
  assert.equal(await waitingIn("stopped"), "1");
  await waitFor("its connection is gone", async () => (await connections("stopped")) === "0");
  await inbox.stop();
  assert.equal(await subject.value("select effect_id from effects_ledger.notice where inbox = 'stopped'"), second);
});

test("a consumer whose handler failed and waits to try again is stopped at once", async () => {
  const failed = latch();
  const inbox = await watch("failing", () => {
    failed.open();
    throw new Error("never");
  });
  await give("failing");
  await failed.opened;
  await inbox.stop();
  assert.equal(await waitingIn("failing"), "1");
});

test("a name that is no inbox's is refused before anything is watched", async () => {
  await assert.rejects(
    ledger.onNotices("The Orders", () => {}),
    { name: "LedgerError", code: "22023" },
  );
  await waitFor("no connection is left", async () => (await connections("The Orders")) === "0");
});
