/**
 * pg_terminate_backend on each kind of session that a worker has, at the moments when it hurts: the effect is admitted and
 * sent once all the same, and the worker goes on. A lock holds each moment until the session is gone.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, type Working } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { together } from "../harness/together.ts";
import { type Latch, latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const answers = new Map<string, Latch>();
const counted = countedOperation("send_note", {
  dispatch: async ({ target }) => {
    await answers.get(target)?.opened;
    return accepted({ receipt: target });
  },
});
const { operation, hits } = counted;
const { histories, sums } = together(subject, counted);
let worker: Working;
let ended = "not yet";

before(async () => {
  worker = await subject.work({ operations: [operation] });
  worker.ended.then(
    () => {
      ended = "by itself";
    },
    (error: unknown) => {
      ended = String(error);
    },
  );
});

const GATES = Array.from({ length: 8 }, (_, gate) => `effects_ledger.gate_${gate}`).join(", ");

interface Moment {
  readonly name: string;
  /** What the session waits for. */
  readonly lock: string;
  /** The statement that it waits in. */
  readonly statement: string;
  /** The lock is taken while the effect is being sent. Default: before it is requested. */
  readonly whileSent?: true;
}

const MOMENTS: readonly Moment[] = [
  {
    name: "loads what it was given",
    lock: "effects_ledger.policy in access exclusive mode",
    statement: "%load_effects%",
  },
  { name: "writes a binding", lock: "effects_payload.binding in share mode", statement: "%record_prepared%" },
  {
    name: "waits at the gate to admit",
    lock: `${GATES} in exclusive mode`,
    statement: "begin isolation level serializable%gate%",
  },
  {
    name: "locks what it decides from",
    lock: "effects_ledger.identity in exclusive mode",
    statement: "%lock_admission%",
  },
  {
    name: "writes an admission, its COMMIT sent",
    lock: "effects_ledger.permit in share mode",
    statement: "%record_admitted%",
  },
  {
    name: "waits at the gate to report",
    lock: `${GATES} in exclusive mode`,
    statement: "begin isolation level read committed%gate%",
    whileSent: true,
  },
  {
    name: "writes an outcome, its COMMIT sent",
    lock: "effects_ledger.outcome in share mode",
    statement: "%record_outcomes%",
    whileSent: true,
  },
];

/** Ends the sessions of a worker that fit, at least one. */
async function terminate(fitting: string, values: readonly unknown[] = []): Promise<void> {
  await waitFor(`a session: ${fitting}`, async () => {
    const ended = await subject.sql(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name like 'pg-effects%' and ${fitting}`,
      values,
    );
    return ended.length > 0;
  });
}

/** Waits for an effect, whose failed job need not wait for its turn. */
async function accept(id: string): Promise<void> {
  await waitFor("it is accepted", async () => {
    await subject.sql(
      "update effects_queue._private_jobs set run_at = now() where key = $1 and locked_at is null and run_at > now()",
      [id],
    );
    return (await ledger.observe(id))?.state === "accepted";
  });
}

for (const { name, lock, statement, whileSent } of MOMENTS) {
  test(`a session that ends while it ${name}: one admission, one request, one outcome`, async () => {
    await ledger.openTask(name, { budgets: { usd_cents: 7n } });
    const answer = latch();
    answers.set(name, answer);
    const holder = await subject.connect();
    const enqueue = () => ledger.enqueue(operation, { to: name, cents: 7 }, { task: name });
    const sent = whileSent ? await enqueue() : null;
    if (sent) await waitFor("it has arrived", () => hits(name) === 1);
    await holder.query(`begin; lock table ${lock}`);
    const id = sent ?? (await enqueue());
    answer.open();
    await terminate("wait_event_type = 'Lock' and query ilike $1", [statement]).finally(() => holder.query("commit"));
    await accept(id);
    assert.deepEqual(await histories([id]), ["admitted accepted"]);
    assert.deepEqual([await sums(name), hits(name)], ["0 7 0", 1]);
  });
}

test("when every idle session is ended, those that listen too, the next effect is sent at once", async () => {
  await terminate("state = 'idle'");
  await terminate("query ilike 'listen%'");
  const id = await ledger.enqueue(operation, { to: "next" });
  await accept(id);
  assert.equal(hits("next"), 1);
  await waitFor("it listens again", () =>
    subject.value("select true from pg_stat_activity where datname = current_database() and query ilike 'listen%'"),
  );
});

test("a heartbeat whose session ends is beaten again", async () => {
  const holder = await subject.connect();
  await holder.query("begin; lock table effects_ledger.worker in share mode");
  const heartbeat = "wait_event_type = 'Lock' and query ilike '%heartbeat%'";
  await terminate(heartbeat).finally(() => holder.query("commit"));
  const before = await subject.value<string>("select clock_timestamp()::text");
  await waitFor("another heartbeat", () =>
    subject.value("select heartbeat_at > $1::timestamptz from effects_ledger.worker where worker = $2", [
      before,
      worker.id,
    ]),
  );
});

test("the worker has lived through all of it", () => assert.equal(ended, "not yet"));
