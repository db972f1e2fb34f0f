/**
 * Invocations (protocol, section 8; ADR 0016): one of five results, recorded once. Missing evidence prevents `succeeded`, an
 * accepted cancellation wins and keeps the doubt as a diagnostic, and what is found out later rewrites nothing.
 */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type InvocationOutcome, unknown } from "../../src/index.ts";
import { attempt } from "../harness/attempt.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { calls, LEASED, lost, unresolved } from "./calls.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const OUTCOMES: readonly InvocationOutcome[] = ["succeeded", "failed", "errored", "cancelled", "rejected"];

const note = countedOperation("send_note");
const lostNote = countedOperation("lose_note", {
  dispatch: () => unknown("the connection was reset"),
  reconcile: async ({ target }) => ({ report: "accepted", proof: { receipt: target } }),
});
before(() => subject.work({ operations: [note.operation, lostNote.operation] }));

const start = () => ledger.startInvocation({ host: "shop-cli", reference: "run 7" });

/** What the auditor sees of it. */
async function audited(id: string) {
  const [row] = await subject.sql<Record<string, unknown>>(
    `select outcome, at is not null as ended, effects::int, effects_in_doubt::int as doubt from audit.invocations
      where invocation_id = $1`,
    [id],
  );
  return row;
}

describe("its result", () => {
  for (const outcome of OUTCOMES) {
    test(`${outcome} is recorded once`, async () => {
      const id = await start();
      assert.deepEqual(await audited(id), { outcome: null, ended: false, effects: 0, doubt: 0 });
      assert.equal(await ledger.endInvocation(id, outcome), outcome);
      assert.deepEqual(await audited(id), { outcome, ended: true, effects: 0, doubt: 0 });
      const moment = "select at from audit.invocations where invocation_id = $1";
      const at = await subject.value(moment, [id]);
      assert.equal(await ledger.endInvocation(id, outcome), outcome);
      for (const other of OUTCOMES.filter((each) => each !== outcome)) {
        // An accepted cancellation wins, whatever its host says afterwards.
        if (outcome === "cancelled") assert.equal(await ledger.endInvocation(id, other), "cancelled");
        else await assert.rejects(ledger.endInvocation(id, other), { code: "PE124" });
      }
      assert.deepEqual([(await audited(id))?.outcome, await subject.value(moment, [id])], [outcome, at]);
    });
  }

  test("is one of five, of an invocation that the caller started", async () => {
    const id = await start();
    await assert.rejects(ledger.endInvocation(id, "done" as InvocationOutcome), { code: "22023" });
    await assert.rejects(ledger.endInvocation("00000000-0000-4000-8000-000000000000", "failed"), { code: "PE123" });
    for (const [host, reference] of [
      ["", "r"],
      ["x".repeat(201), "r"],
      ["h", "x".repeat(201)],
      ["h", ""],
    ] as const) {
      await assert.rejects(ledger.startInvocation({ host, reference }), { code: "22023" });
    }
    await ledger.startInvocation({ host: "no reference" });
  });

  test("is never edited, deleted or emptied", async () => {
    const client = await subject.connect();
    await ledger.endInvocation(await start(), "failed");
    for (const statement of [
      "update effects_ledger.invocation set outcome = 'succeeded' where outcome = 'failed'",
      "update effects_ledger.invocation set host = 'another' where outcome is null",
      "delete from effects_ledger.invocation",
      "truncate effects_ledger.invocation cascade",
    ]) {
      assert.equal((await attempt(client, statement))?.code, "42501", statement);
    }
  });
});

describe("missing evidence prevents `succeeded`", () => {
  async function refusedThen(id: string, effect: string, settle: () => Promise<unknown>) {
    await assert.rejects(ledger.endInvocation(id, "succeeded"), (error: { code: string; message: string }) => {
      return error.code === "PE125" && error.message.includes(effect);
    });
    assert.equal((await audited(id))?.outcome, null);
    await settle();
    assert.equal(await ledger.endInvocation(id, "succeeded"), "succeeded");
    assert.deepEqual(await audited(id), { outcome: "succeeded", ended: true, effects: 1, doubt: 0 });
  }

  test("while an effect waits", async () => {
    const id = await start();
    await ledger.pause({ operation: "send_note", reason: "INC-91" });
    const effect = await ledger.enqueue(note.operation, { to: "waits" }, { invocation: id });
    await refusedThen(id, effect, async () => {
      await ledger.resume({ operation: "send_note", reason: "over" });
      assert.equal((await subject.ended(effect)).state, "accepted");
    });
  });

  test("while an effect is unresolved", async () => {
    const id = await start();
    const effect = await ledger.enqueue(lostNote.operation, { to: "lost" }, { invocation: id });
    assert.equal((await subject.ended(effect)).state, "admitted");
    await refusedThen(id, effect, async () => {
      await ledger.reconcile({ effect, deadlineMs: 20_000 });
      await waitFor("it is accepted", async () => (await ledger.observe(effect))?.state === "accepted");
    });
  });

  test("while an inline effect is unresolved, and while it is uncertain and nobody resolved it", async () => {
    const id = await start();
    const run = ledger.run("order-42", { invocation: id });
    await assert.rejects(run.effect("charge", calls({ run: lost }).functions, LEASED), unresolved);
    const effect = await subject.value<string>("select effect_id from audit.effects where invocation = $1", [id]);
    await assert.rejects(ledger.endInvocation(id, "succeeded"), { code: "PE125" });
    assert.equal((await run.effect("charge", calls().functions)).outcome, "uncertain");
    await refusedThen(id, effect, () =>
      subject.sql("select effects.resolve($1, 'no_effect', '{\"statement\": 3}', 'not on the statement')", [effect]),
    );
  });

  test("while an effect of it owes a cleanup", async () => {
    const id = await start();
    const effect = await ledger.enqueue(note.operation, { to: "owes" }, { invocation: id });
    assert.equal((await subject.ended(effect)).state, "accepted");
    await subject.sql(
      "insert into effects_ledger.obligation (effect_id, opened_at, due_at) values ($1, now(), now())",
      [effect],
    );
    await refusedThen(id, effect, () =>
      subject.sql(
        `with shown as (insert into effects_payload.evidence (effect_id, source, submitted_by, says, bytes, digest)
             select $1, 'cleanup', 'test', 'cleaned', b.bytes, sha256(convert_to('pg-effects/evidence/1' || chr(10), 'UTF8') || b.bytes)
               from (values ('{}'::bytea)) as b(bytes) returning evidence_id)
         update effects_ledger.obligation set closed_at = now(), evidence_id = (select evidence_id from shown) where effect_id = $1`,
        [effect],
      ),
    );
  });

  test("and what was declined, failed or accepted lacks none", async () => {
    const id = await start();
    const effect = await ledger.enqueue(
      note.operation,
      { to: "declined" },
      { invocation: id, notBefore: new Date(Date.now() + 3_600_000) },
    );
    await ledger.cancel(effect);
    await ledger.run("order-42", { invocation: id }).effect("sure", calls().functions);
    assert.equal(await ledger.endInvocation(id, "succeeded"), "succeeded");
  });

  test("a snapshot that may be older than an effect of it proves nothing, and says so", async () => {
    const id = await start();
    const client = await subject.connect();
    await client.query("begin isolation level repeatable read");
    await assert.rejects(ledger.endInvocation(id, "succeeded", { client }), { code: "55000" });
    await client.query("rollback; begin isolation level serializable");
    assert.equal(await ledger.endInvocation(id, "succeeded", { client }), "succeeded");
    await client.query("commit");
  });
});

describe("with doubt left", () => {
  for (const outcome of ["failed", "errored", "cancelled"] as const) {
    test(`${outcome} is recorded all the same, with the doubt as of then, and a later reconciliation rewrites neither`, async () => {
      const id = await start();
      const effect = await ledger.enqueue(lostNote.operation, { to: outcome }, { invocation: id });
      assert.equal((await subject.ended(effect)).state, "admitted");
      assert.equal(await ledger.endInvocation(id, outcome), outcome);
      await ledger.reconcile({ effect, deadlineMs: 20_000 });
      await waitFor("it is accepted", async () => (await ledger.observe(effect))?.state === "accepted");
      assert.deepEqual(await audited(id), { outcome, ended: true, effects: 1, doubt: 1 });
      assert.deepEqual(
        await subject.sql("select effect_id, state from audit.invocation_doubts where invocation_id = $1", [id]),
        [{ effect_id: effect, state: "admitted" }],
      );
    });
  }

  test("what requested an effect was not rejected: it had started", async () => {
    const id = await start();
    await ledger.run("order-42", { invocation: id }).effect("started", calls().functions);
    await assert.rejects(ledger.endInvocation(id, "rejected"), { code: "22023" });
    assert.equal(await ledger.endInvocation(id, "failed"), "failed");
  });
});

describe("once it has ended", () => {
  test("nothing is requested or run in it; a name that was asked for before is the same effect still", async () => {
    const id = await start();
    const options = { invocation: id, name: "asked before" };
    const effect = await ledger.enqueue(note.operation, { to: "before" }, options);
    assert.equal((await subject.ended(effect)).state, "accepted");
    await ledger.endInvocation(id, "succeeded");
    assert.equal(await ledger.enqueue(note.operation, { to: "before" }, options), effect);
    const late = { invocation: id };
    await assert.rejects(ledger.enqueue(note.operation, { to: "late" }, late), { code: "PE124" });
    await assert.rejects(ledger.enqueueMany(note.operation, [{ input: { to: "late" }, ...late }]), {
      code: "PE124",
      ordinal: 1,
    });
    const inline = calls();
    await assert.rejects(ledger.run("order-42", late).effect("late", inline.functions), { code: "invocation_ended" });
    assert.deepEqual([note.hits("late"), inline.ran()], [0, 0]);
  });

  test("what waited in it is denied at once, and declined", async () => {
    const id = await start();
    await ledger.pause({ operation: "send_note", reason: "INC-91" });
    const effect = await ledger.enqueue(note.operation, { to: "too late" }, { invocation: id });
    await waitFor("it waits", async () => {
      const standing = await ledger.observe(effect);
      return standing?.state === "prepared" && standing.waitingFor === "paused";
    });
    await ledger.endInvocation(id, "cancelled");
    const standing = await subject.ended(effect);
    assert.deepEqual(standing.state === "declined" && [standing.reason, standing.code], ["denied", "invocation_ended"]);
    await ledger.resume({ operation: "send_note", reason: "over" });
    assert.equal(note.hits("too late"), 0);
  });

  test("an admission that meets an end under way waits for it, and is denied", async () => {
    const id = await start();
    const ending = await subject.connect();
    await ending.query("begin");
    await ledger.endInvocation(id, "failed", { client: ending });
    const inline = calls();
    const late = assert.rejects(ledger.run("order-42", { invocation: id }).effect("met", inline.functions), {
      code: "invocation_ended",
    });
    await waitFor("it waits for the invocation's row", async () => {
      const waiting =
        "select count(*) from pg_stat_activity where application_name = 'pg-effects' and wait_event_type = 'Lock'";
      return (await subject.value(waiting)) === "1";
    });
    await ending.query("commit");
    await late;
    assert.equal(inline.ran(), 0);
  });

  test("a dispatch under way learns before its next protected step that its authority is gone", async () => {
    const id = await start();
    const effect = await ledger.enqueue(lostNote.operation, { to: "authority" }, { invocation: id });
    assert.equal((await subject.ended(effect)).state, "admitted");
    const gap = () => subject.value("select effects_ledger.authority_gap($1)", [effect]);
    assert.equal(await gap(), null);
    await ledger.endInvocation(id, "errored");
    assert.equal(await gap(), "invocation_ended");
  });
});

test("an invocation of another actor's names nothing, for enqueue and for a run", async () => {
  await subject.sql("select effects.add_actor('agent', 'speaks through this login', spoken_by => session_user)");
  const id = await start();
  const as = { invocation: id, actor: "agent" };
  await assert.rejects(ledger.enqueue(note.operation, { to: "agent" }, as), { code: "PE123" });
  await assert.rejects(ledger.run("order-42", as).effect("agent's", calls().functions), { code: "PE123" });
  const nobodys = { invocation: "00000000-0000-4000-8000-000000000000" };
  await assert.rejects(ledger.enqueue(note.operation, { to: "nobody" }, nobodys), { code: "PE123" });
});
