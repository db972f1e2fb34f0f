/** The database refuses every move that the design does not have, to superusers too (protocol, section 2). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { mayMove, STATES, type State } from "../../src/core/state.ts";
import { attempt } from "../harness/attempt.ts";
import { openGallery } from "../harness/gallery.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const ids = await openGallery(subject);
const client = await subject.connect();

/** Sets a state together with all that its check constraints want, so that only the move itself can be refused. */
function move(to: State): string {
  const admitted = to !== "requested" && to !== "prepared" && to !== "declined";
  return `update effects_ledger.effect set state = '${to}', revision = coalesce(revision, 1), waiting_for = null,
    declined_reason = ${to === "declined" ? "'denied'" : "null"},
    ${
      admitted
        ? `admitted_at = coalesce(admitted_at, now()), admitted_under = coalesce(admitted_under, 'ordinary'),
           dispatch_deadline = coalesce(dispatch_deadline, now())`
        : "admitted_at = null, admitted_under = null, dispatch_deadline = null, token_hash = null"
    }
    where effect_id = $1`;
}

for (const from of STATES) {
  test(`from ${from} an effect moves where the design says, and nowhere else`, async () => {
    for (const to of STATES) {
      if (to === from) continue;
      const refusal = await attempt(client, move(to), [ids[from]]);
      if (mayMove(from, to)) {
        assert.equal(refusal, null, `${from} to ${to}`);
      } else {
        // Out of an admission back before it is refused twice over: the first trigger to speak is the one that guards it.
        assert.ok(refusal, `${from} to ${to} was taken`);
        const guards = ["only the transitions of the design", undefined];
        assert.ok(guards.includes(refusal.constraint) && /^(23514|42501)$/.test(refusal.code), JSON.stringify(refusal));
      }
    }
  });
}

test("what an admission wrote, an event's number, and an effect itself are not taken back", async () => {
  for (const column of [
    "admitted_at = now()",
    "admitted_under = 'policy'",
    "dispatch_deadline = dispatch_deadline + interval '1 hour'",
    "token_hash = sha256('another')",
    "token_hash = null",
    "revision = revision + 1",
    "seq = seq - 1",
  ]) {
    for (const state of ["admitted", "accepted", "uncertain"] as const) {
      const refusal = await attempt(client, `update effects_ledger.effect set ${column} where effect_id = $1`, [
        ids[state],
      ]);
      assert.equal(refusal?.code, "42501", `${column} of one that is ${state}`);
    }
  }
  for (const id of Object.values(ids)) {
    assert.ok(await attempt(client, "delete from effects_ledger.effect where effect_id = $1", [id]));
  }
});
