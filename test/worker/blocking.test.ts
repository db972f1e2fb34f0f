/** A dispatch that holds the event loop past its window: what it reports then is what the recipient said (protocol, section 6). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, failed, notSent } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const WINDOW_MS = 200;

/** Holds the event loop: no timer fires meanwhile, not even the one of the window. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

const { operation, hits } = countedOperation("send_note", {
  contract: { dispatchTimeoutMs: WINDOW_MS, failures: { refused: { effect: "none" } } },
  dispatch: ({ target }) => {
    block(3 * WINDOW_MS);
    if (target === "refused") return failed({ code: "refused" });
    return target === "not sent" ? notSent({ code: "no_route" }) : accepted({ receipt: target });
  },
});
before(() => subject.work({ operations: [operation] }));

for (const [to, state] of [
  ["accepted", "accepted"],
  ["refused", "failed"],
  ["not sent", "no_effect"],
] as const) {
  test(`its answer "${to}" is recorded as ${state} via dispatch, once`, async () => {
    const id = await subject.ledger.enqueue(operation, { to });
    await subject.idle();
    assert.equal((await subject.ended(id)).state, state);
    const via = "select outcome_via from audit.effects where effect_id = $1";
    assert.equal(await subject.value(via, [id]), "dispatch");
    assert.equal(hits(to), 1);
  });
}
