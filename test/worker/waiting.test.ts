/** When a request may run, and what becomes of one that must not run yet (protocol, sections 3 and 5). */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { register } from "../harness/registration.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const order: string[] = [];
const { operation, hits } = countedOperation("send_note", {
  dispatch: ({ target }) => {
    order.push(target);
    return { report: "accepted", proof: { receipt: target } };
  },
});
const paused = countedOperation("send_paused");

before(async () => {
  await register(subject.connectionString, [operation, paused.operation]);
  await subject.sql("select effects.pause('operation', 'send_paused', 'a test')");
});

const inMs = (ms: number) => new Date(Date.now() + ms);
const events = async (id: string) =>
  (
    await subject.sql<{ event: string }>(
      "select event || coalesce(' ' || (detail ->> 'code'), '') as event from audit.events where effect_id = $1 order by seq",
      [id],
    )
  ).map(({ event }) => event);

test("a smaller priority is sent first, and equal ones in the order they were requested", async () => {
  for (const [to, priority] of Object.entries({ c: 0, e: 5, a: -32_768, d: 0, f: 32_767, b: -1 })) {
    await ledger.enqueue(operation, { to }, { priority });
  }
  const worker = await subject.work({ operations: [operation], concurrency: 1 });
  await waitFor("all are sent", () => order.length === 6);
  assert.equal(order.join(""), "abcdef");
  await worker.stop();
});

test("what expires before a worker comes is declined and never sent", async () => {
  const id = await ledger.enqueue(operation, { to: "expired" }, { expiresAt: inMs(2_000) });
  await waitFor("it has expired", () =>
    subject.value("select expires_at < clock_timestamp() from effects_ledger.request where effect_id = $1", [id]),
  );
  const worker = await subject.work({ operations: [operation] });
  const standing = await subject.ended(id);
  assert.ok(standing.state === "declined");
  assert.deepEqual([standing.reason, standing.code], ["expired", "binding_expired"]);
  assert.equal(hits("expired"), 0);
  await worker.stop();
});

describe("with a worker", { concurrency: true }, () => {
  before(() => subject.work({ operations: [operation, paused.operation] }));

  test("nothing is admitted before its not_before, even where its job comes early", async () => {
    const id = await ledger.enqueue(operation, { to: "later" }, { notBefore: inMs(2_000) });
    await subject.sql("select effects_ledger.requeue(array[$1::uuid])", [id]);
    await waitFor("its early job waits for time", async () => {
      const standing = await ledger.observe(id);
      return standing?.state === "prepared" && standing.waitingFor === "time";
    });
    assert.equal(hits("later"), 0);
    assert.equal((await subject.ended(id)).state, "accepted");
    assert.deepEqual(await events(id), ["requested", "prepared", "denied not_yet", "admitted", "accepted"]);
    const kept = "select admitted_at >= not_before from audit.effects where effect_id = $1";
    assert.equal(await subject.value(kept, [id]), true);
  });

  test("what may wait waits, says for what, and appends a denial once; then it is declined at its expiry", async () => {
    const id = await ledger.enqueue(paused.operation, { to: "waits" }, { expiresAt: inMs(6_500) });
    await waitFor("it waits", async () => {
      const standing = await ledger.observe(id);
      return standing?.state === "prepared" && standing.waitingFor === "paused";
    });
    const standing = await subject.ended(id);
    assert.ok(standing.state === "declined");
    assert.deepEqual([standing.reason, standing.code], ["expired", "binding_expired"]);
    // Looked at three times at least: at once, after 5 s, and at its expiry.
    assert.deepEqual(await events(id), ["requested", "prepared", "denied paused", "declined binding_expired"]);
    assert.equal(paused.hits("waits"), 0);
  });

  test("what was asked to be declined instead of waiting is declined at once", async () => {
    const id = await ledger.enqueue(paused.operation, { to: "declines" }, { onDenial: "decline" });
    const standing = await subject.ended(id);
    assert.ok(standing.state === "declined");
    assert.deepEqual([standing.reason, standing.code], ["denied", "paused"]);
    assert.match(standing.hint, /paused/);
  });

  test("what waits goes on when what it waits for is there, with the binding that it has", async () => {
    const stopped = countedOperation("send_stopped");
    await subject.work({ operations: [stopped.operation] });
    await subject.sql("select effects.pause('operation', 'send_stopped', 'a test')");
    const id = await ledger.enqueue(stopped.operation, { to: "a" });
    await waitFor("it waits", async () => (await ledger.observe(id))?.state === "prepared");
    await subject.sql("select effects.resume('operation', 'send_stopped', 'a test')");
    assert.equal((await subject.ended(id)).state, "accepted");
    assert.equal(await subject.value("select count(*) from effects_payload.binding where effect_id = $1", [id]), "1");
    assert.equal(stopped.hits("a"), 1);
  });
});
