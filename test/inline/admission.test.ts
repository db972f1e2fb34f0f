/**
 * The intent of an inline effect passes the admission decision of every effect (protocol, section 5), in one transaction and
 * at no cost; where that says no, nothing is recorded and nothing runs.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LedgerError, openLedger } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { calls, lost, unresolved } from "./calls.ts";

const subject = await openTestLedger();
const { ledger } = subject;

const names = new Set<string>();
/** A name that no other test has. */
function fresh(): string {
  const name = `effect ${names.size}`;
  names.add(name);
  return name;
}

async function refusal(run: () => Promise<unknown>): Promise<LedgerError> {
  const error = await run().then(
    () => null,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof LedgerError, `it was not refused: ${String(error)}`);
  return error;
}

/** Tries a fresh effect, and says how it was refused: nothing ran, and nothing is on record. */
async function refused(options: Parameters<typeof ledger.run>[1] = {}, run = "order-42"): Promise<string> {
  const name = fresh();
  const made = calls();
  const { code, hint } = await refusal(() => ledger.run(run, options).effect(name, made.functions));
  assert.ok(hint, `${code} has no hint`);
  assert.deepEqual([made.ran(), made.asked()], [0, 0]);
  assert.equal(await subject.value("select count(*) from effects_ledger.request where name = $1", [name]), "0");
  return code;
}

async function accepted(options: Parameters<typeof ledger.run>[1] = {}): Promise<void> {
  const made = calls();
  await ledger.run("order-42", options).effect(fresh(), made.functions);
  assert.equal(made.ran(), 1);
}

describe("what is recorded", () => {
  test("a permit, used as it was issued, admitted under inline; no cost, no reservation; its task and actor", async () => {
    await ledger.openTask("orders", { subject: "order:42", budgets: { usd_cents: 0n } });
    await ledger.run("order-42", { task: "orders" }).effect("shape", calls().functions);
    const [row] = await subject.sql(
      `select e.operation, e.operation_version, e.state, e.admitted_under, e.policy, e.task_name, e.subject, e.actor = session_user as own,
              e.run, e.name, e.target, e.implementation, e.release, p.issued_under, p.consumed_at = p.issued_at as used, p.digest = e.digest as bound,
              (select count(*)::int from audit.costs c where c.effect_id = e.effect_id) as costs,
              (select count(*)::int from audit.reservations c where c.effect_id = e.effect_id) as reservations
         from audit.effects e join audit.permits p using (effect_id) where e.name = 'shape'`,
    );
    assert.deepEqual(row, {
      operation: "inline",
      operation_version: 1,
      state: "accepted",
      admitted_under: "inline",
      policy: "ordinary",
      task_name: "orders",
      subject: "order:42",
      own: true,
      run: "order-42",
      name: "shape",
      target: "order-42/shape",
      implementation: "inline",
      release: "test",
      issued_under: "inline",
      used: true,
      bound: true,
      costs: 0,
      reservations: 0,
    });
  });

  test("its binding is the ledger id, the run, the name and the actor, canonical and digested", async () => {
    await ledger.run("order-é").effect("bound", calls().functions);
    const [row] = await subject.sql<{ payload: object; bytes: { actor: string; ledger: string; target: string } }>(
      `select convert_from(b.payload, 'UTF8')::json as payload, convert_from(b.bytes, 'UTF8')::json as bytes
         from effects_payload.binding b join effects_ledger.request r using (effect_id) where r.name = 'bound'`,
    );
    const actor = await subject.value<string>("select session_user");
    assert.deepEqual(row?.payload, { actor, ledger: ledger.id, name: "bound", run: "order-é" });
    assert.deepEqual([row?.bytes.actor, row?.bytes.ledger, row?.bytes.target], [actor, ledger.id, "order-é/bound"]);
  });

  test("requested, prepared and admitted are of one transaction", async () => {
    await ledger.run("order-42").effect("one transaction", calls().functions);
    const transactions = await subject.sql(
      `select distinct v.xmin::text from effects_ledger.event v join effects_ledger.request r using (effect_id)
        where r.name = 'one transaction' and v.event in ('requested', 'prepared', 'admitted', 'intent')`,
    );
    assert.equal(transactions.length, 1);
  });

  test("the database refuses an inline request that its transaction does not admit", async () => {
    await assert.rejects(subject.sql("select effects_ledger.request_inline('run', 'left', 'default', null, null)"), {
      code: "23514",
      constraint: "an inline effect is admitted as it is requested",
    });
  });

  test("the words of what a run threw are nowhere in the record: they may hold what no record should", async () => {
    const thrown = calls({
      run: () => {
        throw Object.assign(new RangeError("token sk_live_51H"), { code: "E_CARD" });
      },
    });
    const error = await refusal(() => ledger.run("order-42").effect("secret", thrown.functions));
    assert.match((error.cause as Error).message, /sk_live/);
    assert.deepEqual(
      await subject.sql(
        "select v.detail from audit.events v join audit.effects e using (effect_id) where e.name = 'secret' and v.event = 'unresolved'",
      ),
      [{ detail: { reason: "run threw RangeError E_CARD" } }],
    );
  });
});

describe("identity", () => {
  test("is actor, run and name: another task makes no second effect", async () => {
    await ledger.openTask("elsewhere");
    const made = calls();
    await ledger.run("order-7").effect("charge", made.functions);
    await ledger.run("order-7", { task: "elsewhere" }).effect("charge", made.functions);
    assert.equal(made.ran(), 1);
  });

  test("another actor's run of the same name is another effect, in the same task too", async () => {
    await subject.sql("select effects.add_actor('clerk', 'speaks through this login', spoken_by => session_user)");
    const made = calls();
    await ledger.run("order-8").effect("charge", made.functions);
    await ledger.run("order-8", { actor: "clerk" }).effect("charge", made.functions);
    assert.equal(made.ran(), 2);
    assert.deepEqual(
      await subject.sql(
        "select actor = 'clerk' as clerk, spoken_by is not null as spoken from audit.effects where run = 'order-8' order by 1",
      ),
      [
        { clerk: false, spoken: false },
        { clerk: true, spoken: true },
      ],
    );
  });

  test("an effect that was enqueued under the same name in the same task is another one, and so is how it is found", async () => {
    await ledger.run("order-9").effect("receipt", calls().functions);
    assert.equal(await ledger.find({ name: "receipt" }), null);
  });

  test("a run and a name that the record would change or cannot hold are refused before anything is asked", async () => {
    for (const bad of ["", "x".repeat(201), "a\0b", "\ud800", undefined, 7]) {
      for (const [run, name] of [
        [bad, "charge"],
        ["order", bad],
      ]) {
        const effect = () => ledger.run(run as string).effect(name as string, calls().functions);
        assert.equal((await refusal(effect)).code, "inline_invalid");
      }
    }
    await ledger.run("🙂".repeat(200)).effect("é".repeat(200), calls().functions);
  });

  test("what is no function and no timer is refused before anything is recorded", async () => {
    const { functions } = calls();
    const run = ledger.run("order-42");
    for (const options of [
      { reconcileTimeoutMs: 0 },
      { runTimeoutMs: -1 },
      { runTimeoutMs: 2 ** 31 },
      { reconcileTimeoutMs: Number.NaN },
    ]) {
      assert.equal((await refusal(() => run.effect("options", functions, options))).code, "inline_invalid");
    }
    const half = { run: functions.run } as typeof functions;
    assert.equal((await refusal(() => run.effect("options", half))).code, "inline_invalid");
    assert.equal(await subject.value("select count(*) from audit.effects where name = 'options'"), "0");
  });
});

describe("refused", () => {
  test("under a task that is unknown, another actor's, ended, revoked or past its deadline", async () => {
    await ledger.openTask("clerk's", { actor: "clerk" });
    await ledger.openTask("ended");
    await ledger.endTask("ended");
    await ledger.openTask("revoked");
    await subject.sql("select effects.revoke_task('revoked', 'its key leaked')");
    const deadline = new Date(Date.now() + 1_000);
    await ledger.openTask("short", { deadline });
    await waitFor("its deadline has passed", () => subject.value("select clock_timestamp() > $1", [deadline]));
    assert.equal(await refused({ task: "nowhere" }), "PE103");
    assert.equal(await refused({ task: "clerk's" }), "42501");
    assert.equal(await refused({ task: "ended" }), "task_ended");
    assert.equal(await refused({ task: "revoked" }), "task_revoked");
    assert.equal(await refused({ task: "short" }), "task_expired");
    await accepted();
  });

  test("for an actor that this login does not speak for, or that is revoked", async () => {
    assert.equal(await refused({ actor: "nobody's" }), "42501");
    await subject.sql("select effects.add_actor('gone', 'leaves soon', spoken_by => session_user)");
    await accepted({ actor: "gone" });
    const open = calls({ run: lost, reconcile: () => ({ receipt: "r2" }) });
    await assert.rejects(ledger.run("order-42", { actor: "gone" }).effect("gone's", open.functions), unresolved);
    await subject.sql("select effects.revoke_actor('gone', 'left')");
    assert.equal(await refused({ actor: "gone" }), "42501");
    // What was admitted before is asked about and settled all the same.
    assert.equal(
      (await ledger.run("order-42", { actor: "gone" }).effect("gone's", open.functions)).outcome,
      "accepted",
    );
  });

  for (const [scope, target] of [
    ["operation", "inline"],
    ["task", "default"],
    ["target", "order-42/"],
    ["all", ""],
  ] as const) {
    test(`while a pause of the ${scope} ${target} stands, and not afterwards`, async () => {
      await accepted();
      await subject.sql("select effects.pause($1, $2, 'INC-91')", [scope, target]);
      assert.equal(await refused(), "paused");
      await subject.sql("select effects.resume($1, $2, 'over')", [scope, target]);
      await accepted();
    });
  }

  test("a pause that has returned is ahead of an intent whose transaction began before it", async () => {
    const holder = await subject.connect();
    const made = calls();
    // Its request waits for this row, with a snapshot that is older than the pause.
    await holder.query("begin; select from effects_ledger.task where name = 'default' for update");
    const late = refusal(() => ledger.run("order-42").effect("overtaken", made.functions));
    await waitFor("the intent waits", async () => {
      const waiting =
        "select count(*) from pg_stat_activity where application_name = 'pg-effects' and wait_event_type = 'Lock'";
      return (await subject.value(waiting)) === "1";
    });
    await subject.sql("select effects.pause('operation', 'inline', 'INC-92')");
    await holder.query("rollback");
    assert.deepEqual([(await late).code, made.ran()], ["paused", 0]);
    await subject.sql("select effects.resume('operation', 'inline', 'over')");
  });

  test("on a closed ledger, and not once it is acknowledged", async () => {
    await subject.sql("select effects.close_ledger('switchover')");
    assert.equal(await refused(), "recovery_unacknowledged");
    await subject.sql("select effects.acknowledge_recovery('lost-nothing', 'switched over')");
    await accepted();
  });

  test("on a strict ledger, as unsupported, and where the owner protects `inline`", async () => {
    await subject.sql("select effects.set_ledger(true, 'nothing unregistered here')");
    assert.equal(await refused(), "unsupported");
    const [direct] = await Promise.allSettled([
      subject.sql(
        "select effects_ledger.admit_inline(jsonb_build_object('effect_id', effect_id), 'x') from audit.effects where name = 'shape'",
      ),
    ]);
    assert.ok(direct?.status === "rejected" && direct.reason.code === "42501");
    await subject.sql("select effects.set_ledger(false, 'tried')");
    await accepted();
    await subject.sql("select effects.protect_operation('inline', 'everything goes through an operation')");
    assert.equal(await refused(), "unsupported");
  });

  test("where the owner withdrew `inline`", async () => {
    await subject.sql("select effects.withdraw_operation('inline', 1, 'moved to operations')");
    assert.equal(await refused(), "operation_withdrawn");
  });
});

test("a process whose confirmed intent is gone runs nothing more, and closes the ledger for all", async () => {
  const other = await openTestLedgerElsewhere();
  await other.ledger.run("order-42").effect("confirmed", calls().functions);
  // A snapshot put back while the process lives.
  await other.sql(
    `set session_replication_role = replica;
     delete from effects_ledger.event; delete from effects_ledger.outcome; delete from effects_payload.evidence;
     delete from effects_ledger.permit; delete from effects_ledger.effect; delete from effects_payload.binding;
     delete from effects_payload.input; delete from effects_ledger.request; reset session_replication_role`,
  );
  const made = calls();
  assert.equal(
    (await refusal(() => other.ledger.run("order-42").effect("confirmed", made.functions))).code,
    "recovery_unacknowledged",
  );
  assert.equal(made.ran(), 0);
  const fresh = await openLedger({ connectionString: other.connectionString });
  other.atEnd(() => fresh.close());
  assert.equal(
    (await refusal(() => fresh.run("order-42").effect("another", made.functions))).code,
    "recovery_unacknowledged",
  );
});

/** A ledger that is broken on purpose. */
function openTestLedgerElsewhere() {
  return openTestLedger({ sound: false });
}
