/** Faults of the queue itself: a job that throws, and a database that takes no writes for a while. No job stays locked. */
import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import postNote from "../fixtures/worker-tasks/post_note.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startRecipient } from "../harness/recipient.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const recipient = await startRecipient(subject);

test("a job that throws is recorded as failed, is tried again, and the worker lives", async () => {
  const worker = await subject.child();
  await subject.sql("select effects_queue.add_job('post_note', '{}', job_key => 'malformed')");
  await waitFor("its failure is recorded", () =>
    subject.value<string>("select last_error from effects_queue.jobs where key = 'malformed' and locked_at is null"),
  );
  const id = await subject.ledger.enqueue(postNote, { url: recipient.url("after") });
  assert.equal((await subject.ended(id)).state, "accepted");
  await subject.sql("delete from effects_queue._private_jobs where key = 'malformed'");
  worker.signal("SIGTERM");
  assert.equal(await worker.exited, 0);
});

test("a worker whose database took no writes for a while works on or ends; no effect is left behind, none sent twice", async () => {
  const worker = await subject.child({ concurrency: 4 });
  const paths = Array.from({ length: 40 }, (_, n) => `read-only-${n}`);
  for (const path of paths) await subject.ledger.enqueue(postNote, { url: recipient.url(path) });
  await waitFor("some arrived", () => paths.some((path) => recipient.hits(path) > 0));
  await readOnly(true);
  await waitFor("the worker met it", () => /read-only transaction/.test(worker.output()) || worker.ended());
  await readOnly(false);

  const next = await subject.child({ concurrency: 4 });
  await waitFor(
    "nothing waits any more",
    async () =>
      (await subject.value<string>("select count(*) from audit.effects where state in ('requested', 'prepared')")) ===
      "0",
    { timeoutMs: 60_000 },
  );
  for (const path of paths) assert.ok(recipient.hits(path) <= 1, `${path} arrived ${recipient.hits(path)} times`);
  next.signal("SIGTERM");
  assert.equal(await next.exited, 0);
});

/** As in a failover: new sessions cannot write, and the old ones are gone. */
async function readOnly(on: boolean): Promise<void> {
  const admin = new pg.Client({ connectionString: subject.connectionString, application_name: "failover" });
  await admin.connect();
  try {
    const { rows } = await admin.query<{ name: string }>("select current_database() as name");
    const database = pg.escapeIdentifier(rows[0]?.name ?? "");
    await admin.query("set default_transaction_read_only = off");
    await admin.query(
      `alter database ${database} ${on ? "set default_transaction_read_only = on" : "reset default_transaction_read_only"}`,
    );
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name like 'pg-effects%'`,
    );
  } finally {
    await admin.end();
  }
}
