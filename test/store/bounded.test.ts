/** What the ledger asks by itself waits for nobody's lock for ever: it says what holds it, and leaves nothing behind. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runChange } from "../../src/store/control.ts";
import { enqueueText } from "../../src/store/enqueue-text.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { register } from "../harness/registration.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger, connectionString } = subject;
const { operation } = countedOperation("send_note");
await register(connectionString, [operation]);

/** The lock timeout, and time for a loaded machine: far below the ten minutes that were seen. */
const BOUND_MS = 20_000;

test("a lock that is not had in ten seconds refuses a call as lock_timeout, and the next call works", async () => {
  const holder = await subject.connect();
  await holder.query("begin; lock table effects_ledger.task, effects_ledger.operation, effects_ledger.identity");
  const began = performance.now();
  const calls = {
    enqueue: ledger.enqueue(operation, { to: "a" }),
    openTask: ledger.openTask("notes"),
    pause: ledger.pause({ operation: "send_note", reason: "test" }),
    reconcile: ledger.reconcile({ all: true, deadlineMs: 60_000 }),
    "the command enqueue": enqueueText(connectionString, { operation: "send_note", input: '{"to": "b"}' }),
    "a change by command": runChange(connectionString, {
      text: "select effects.set_budget('default', 'notes', '1', 'test')",
      values: [],
      dryRun: false,
    }),
  };
  const ends = await Promise.allSettled(Object.values(calls));
  await holder.query("rollback");
  assert.ok(performance.now() - began < BOUND_MS);
  for (const [place, name] of Object.keys(calls).entries()) {
    const end = ends[place];
    assert.ok(end?.status === "rejected", name);
    const { code, hint } = end.reason as { readonly code: string; readonly hint: string };
    assert.deepEqual([code, hint.includes("pg_blocking_pids")], ["lock_timeout", true], name);
  }
  assert.equal(await subject.value("select count(*) from effects_ledger.request"), "0");
  await ledger.enqueue(operation, { to: "a" });
});

test("its settings end with its transaction: nothing of them is left on the connection, as a pooler would pass it on", async () => {
  await ledger.openTask("settings");
  const sessions = await subject.sql<{ pid: number }>(
    "select pid from pg_stat_activity where application_name = 'pg-effects' and datname = current_database()",
  );
  assert.ok(sessions.length > 0);
  // A statement timeout of the session would be armed for this one, too.
  const asked = ledger.observe("00000000-0000-0000-0000-000000000000");
  assert.equal(await asked, null);
  await waitFor("every session is idle, outside a transaction", () =>
    subject.value(
      `select bool_and(state = 'idle') from pg_stat_activity
        where application_name = 'pg-effects' and datname = current_database()`,
    ),
  );
});
