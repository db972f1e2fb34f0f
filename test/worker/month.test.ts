/** An effect nobody could tell about is still there after a month, still unresolved, still unsent (section 10; case 30). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const { operation, hits } = countedOperation("send_note", {
  contract: { expiresAfterMs: 3_600_000 },
  dispatch: () => unknown("the line went dead"),
  reconcile: async ({ target }) => accepted({ receipt: target }),
});

before(() => subject.work({ operations: [operation] }));

/** As if everything about an effect had happened a month earlier; its chain is computed anew, as it would have been then. */
const AGE = `do $$
  declare
    v effects_ledger.event;
    previous bytea;
  begin
    set local session_replication_role = replica; -- the one way past the triggers
    update effects_ledger.request set requested_at = requested_at - interval '31 days', expires_at = expires_at - interval '31 days';
    update effects_ledger.permit set issued_at = issued_at - interval '31 days', consumed_at = consumed_at - interval '31 days',
      expires_at = expires_at - interval '31 days';
    update effects_payload.binding set prepared_at = prepared_at - interval '31 days', expires_at = expires_at - interval '31 days';
    update effects_ledger.effect set admitted_at = admitted_at - interval '31 days',
      dispatch_deadline = dispatch_deadline - interval '31 days', unresolved_since = unresolved_since - interval '31 days';
    for v in select * from effects_ledger.event order by effect_id, seq loop
      previous := case v.seq when 1 then effects_ledger.chain_start(v.effect_id) else previous end;
      update effects_ledger.event e set at = v.at - interval '31 days', previous_hash = previous,
          hash = effects_ledger.event_hash(previous, v.effect_id, v.seq, v.at - interval '31 days', v.event, v.from_state,
                                           v.to_state, v.by_role, v.by_worker, v.detail)
        where e.effect_id = v.effect_id and e.seq = v.seq returning e.hash into previous;
      update effects_ledger.effect e set head = previous where e.effect_id = v.effect_id;
    end loop;
  end $$`;

test("a month later it is unresolved, holds its budget, keeps its name, and is not sent again; proof still ends it", async () => {
  await ledger.openTask("orders", { budgets: { usd_cents: 10n } });
  const request = { task: "orders", name: "order/42" };
  const id = await ledger.enqueue(operation, { to: "a", cents: 10 }, request);
  await subject.ended(id);
  await subject.idle();
  await subject.sql(AGE);

  const restarted = await subject.work({ operations: [operation] });
  await subject.sql(
    "select effects_queue.add_job('send_note', json_build_object('effect_id', $1::text), job_key => $1)",
    [id],
  );
  await subject.idle();
  const standing = await ledger.observe(id);
  assert.ok(standing?.state === "admitted" && standing.unresolved);
  assert.ok(Date.now() - standing.unresolvedSince.getTime() > 30 * 86_400_000);
  assert.equal(await ledger.enqueue(operation, { to: "a", cents: 10 }, request), id);
  const [held] = await subject.sql(
    "select since < now() - interval '30 days' as old, held from audit.unresolved where effect_id = $1",
    [id],
  );
  assert.deepEqual(held, { old: true, held: { usd_cents: "10" } });
  const next = await ledger.enqueue(operation, { to: "b", cents: 1 }, { task: "orders", onDenial: "decline" });
  const denied = await subject.ended(next);
  assert.ok(denied.state === "declined" && denied.code === "budget_held");
  assert.equal(hits("a"), 1);

  await ledger.reconcile({ task: "orders", deadlineMs: 10_000 });
  const resolved = await waitFor("the proof", async () => {
    const seen = await ledger.observe(id);
    return seen?.state === "accepted" && seen;
  });
  assert.deepEqual([resolved.via, hits("a")], ["reconcile", 1]);
  await restarted.stop();
});
