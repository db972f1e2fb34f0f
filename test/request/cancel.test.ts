/** Cancelling: what is not admitted is declined, and what is goes on, told of it, with nothing claimed (protocol, section 3). */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { before, test } from "node:test";
import { decideAdmissions } from "../../src/core/admission.ts";
import { sha256 } from "../../src/core/digest.ts";
import type { Working } from "../../src/index.ts";
import { lockAdmission, recordAdmitted } from "../../src/store/admission.ts";
import { registeredRunning } from "../../src/store/effects.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { latch, waitFor } from "../harness/wait.ts";
import { openRoleLedger } from "../roles/with-roles.ts";

const subject = await openRoleLedger();
const { ledger } = subject;
const deaf = latch();
const send = countedOperation("send_note", {
  dispatch: async ({ target }, { signal }) => {
    if (target.startsWith("heeds"))
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    if (target.startsWith("ignores")) await deaf.opened;
    if (target.startsWith("knows")) {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { report: "notSent", evidence: { code: "aborted before it was sent" } };
    }
    return { report: "accepted", proof: { receipt: target } };
  },
});
const { operation } = send;
const waits = countedOperation("send_never").operation;

let preparing: Working;
before(async () => {
  await subject.work({ operations: [operation], concurrency: 40 });
  preparing = await subject.work({ operations: [waits] });
});

const events = (id: string) =>
  subject.value<string>("select string_agg(event, ' ' order by seq) from audit.events where effect_id = $1", [id]);
const jobsOf = (id: string) =>
  subject.value<string>("select count(*) from effects_queue._private_jobs where payload ->> 'effect_id' = $1", [id]);
/** An effect that is being dispatched. */
async function sent(to: string): Promise<string> {
  const id = await ledger.enqueue(operation, { to });
  await waitFor("it is sent", () => send.hits(to) === 1);
  return id;
}
/** An effect that is prepared and waits, for it is paused. */
async function prepared(name: string): Promise<string> {
  await ledger.pause({ operation: "send_never", reason: "it is to wait" });
  const id = await ledger.enqueue(waits, { to: name });
  await waitFor("it waits", async () => (await ledger.observe(id))?.state === "prepared");
  return id;
}

test("before its admission an effect is declined, once, and nothing is sent", async () => {
  const id = await prepared("declined");
  assert.equal(await ledger.cancel(id), "declined");
  assert.equal(await ledger.cancel(id), "declined");
  const standing = await ledger.observe(id);
  assert.ok(standing?.state === "declined");
  assert.deepEqual([standing.reason, standing.code], ["cancelled", "cancelled"]);
  assert.match(standing.hint, /nothing was sent/);
  assert.match(await events(id), /^requested prepared (denied )?declined$/);
  const asked = await ledger.enqueue(operation, { to: "x" }, { notBefore: new Date(Date.now() + 600_000) });
  assert.equal(await ledger.cancel(asked), "declined");
});

test("it stands or falls with the caller's transaction", async () => {
  const id = await prepared("undone");
  const client = await subject.connect();
  await client.query("begin");
  assert.equal(await ledger.cancel(id, { client }), "declined");
  await client.query("rollback");
  assert.equal((await ledger.observe(id))?.state, "prepared");
});

test("after its admission it is recorded once, the dispatch's signal is aborted, and nobody claims that nothing happened", async () => {
  const id = await sent("heeds");
  assert.equal(await ledger.cancel(id), "cancel_requested");
  assert.equal(await ledger.cancel(id), "cancel_requested");
  const standing = await subject.ended(id);
  assert.ok(standing.state === "admitted" && standing.unresolved);
  assert.equal(await events(id), "requested prepared admitted cancel_requested unresolved");
  const reason = await subject.value<string>(
    "select detail ->> 'reason' from audit.events where effect_id = $1 and event = 'unresolved'",
    [id],
  );
  assert.match(reason, /^cancellation was requested/);
  assert.equal(
    await subject.value("select by_role from audit.events where effect_id = $1 and event = 'cancel_requested'", [id]),
    await subject.value("select session_user"),
  );
});

test("what an adapter knows when it is told is taken as it is", async () => {
  const id = await sent("knows");
  assert.equal(await ledger.cancel(id), "cancel_requested");
  assert.equal((await subject.ended(id)).state, "no_effect");
});

test("an adapter that ignores its signal keeps its time, and its answer is the outcome", async () => {
  const id = await sent("ignores");
  assert.equal(await ledger.cancel(id), "cancel_requested");
  await waitFor("the worker has told it", () => subject.log.some((line) => line.includes(id)));
  assert.deepEqual(await ledger.observe(id), { state: "admitted", unresolved: false });
  deaf.open();
  assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(await ledger.cancel(id), "ended");
  assert.equal(await events(id), "requested prepared admitted cancel_requested accepted");
});

test("a cancellation that comes second waits for the admission, and finds it admitted", async () => {
  const id = await prepared("second");
  await preparing.stop(); // else it would admit it, too
  const admission = await subject.connect();
  const running = (await registeredRunning(admission, id)) ?? assert.fail();
  await ledger.resume({ operation: "send_never", reason: "its admission is made here" });
  await admission.query("begin isolation level serializable");
  const { facts, bodies } = await lockAdmission(admission, new Map([[id, running]]));
  const canceller = await subject.connect();
  const { pid } = (await canceller.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0] ?? assert.fail();
  const cancelled = ledger.cancel(id, { client: canceller });
  await waitFor("it waits for the admission", () =>
    subject.value("select wait_event_type = 'Lock' from pg_stat_activity where pid = $1", [pid]),
  );
  const [verdict] = decideAdmissions(facts);
  assert.ok(verdict?.verdict === "admitted");
  const { issuedUnder, permitExpiresAtMs, charges } = verdict;
  await recordAdmitted(admission, "test", [
    {
      ...{ effectId: id, digest: bodies.get(id)?.digest ?? "", issuedUnder, permitExpiresAtMs, charges },
      ...{ attempt: randomUUID(), tokenHash: sha256("a token").toString("hex"), cost: {}, policyId: null, lane: null },
      ...{ approvals: [], dispatchTimeoutMs: 600_000 },
    },
  ]);
  await admission.query("commit");
  assert.equal(await cancelled, "cancel_requested");
  assert.match(await events(id), /admitted cancel_requested$/);
});

test("a cancellation that is first makes the admission that waits for it find it declined", async () => {
  const to = "first";
  await ledger.pause({ operation: "send_note", reason: "it is to wait" });
  const id = await ledger.enqueue(operation, { to });
  await waitFor("it waits", async () => (await ledger.observe(id))?.state === "prepared");
  const client = await subject.connect();
  await client.query("begin");
  const { pid } = (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0] ?? assert.fail();
  assert.equal(await ledger.cancel(id, { client }), "declined");
  await ledger.resume({ operation: "send_note", reason: "now" });
  await waitFor("the admission waits for it", () =>
    subject.value(
      "select exists (select from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) and query like '%lock_admission%')",
      [pid],
    ),
  );
  await client.query("commit");
  await waitFor("its job is done", async () => (await jobsOf(id)) === "0");
  assert.equal((await ledger.observe(id))?.state, "declined");
  assert.equal(send.hits(to), 0);
});

test("of a hundred that are cancelled while they are admitted, none that was declined was sent, and every other one was, once", async () => {
  const names = Array.from({ length: 100 }, (_, place) => `raced/${place}`);
  const requested = await ledger.enqueueMany(
    operation,
    names.map((to) => ({ input: { to } })),
  );
  const said = await Promise.all(requested.map(({ effectId }) => ledger.cancel(effectId)));
  for (const [place, { effectId }] of requested.entries()) {
    const { state } = await subject.ended(effectId);
    const declined = said[place] === "declined";
    assert.equal(state, declined ? "declined" : "accepted", `${names[place]}: ${said[place]}`);
    assert.equal(send.hits(names[place] ?? ""), declined ? 0 : 1);
  }
});

test("only its actor, who speaks for it, or an operator cancels; to others there is no such effect", async () => {
  const service = await subject.login("own", "service");
  const stranger = await (await subject.login("stranger", "service")).open();
  const operator = await (await subject.login("op", "operator")).open();
  await subject.sql("select effects.add_actor('shop', 'the shop', spoken_by => $1)", [service.name]);
  const own = await service.open();
  const ask = (actor?: string) =>
    own.enqueue(waits, { to: "x" }, { notBefore: new Date(Date.now() + 600_000), ...(actor && { actor }) });
  const [mine, shops, operated] = [await ask(), await ask("shop"), await ask()];
  for (const id of [mine, shops, "00000000-0000-7000-8000-000000000000"]) {
    await assert.rejects(stranger.cancel(id), { name: "LedgerError", code: "PE109" });
  }
  assert.equal(await own.cancel(mine), "declined");
  assert.equal(await own.cancel(shops), "declined");
  assert.equal(await operator.cancel(operated), "declined");
});
