/**
 * What becomes of inline effects in doubt besides their host's own calls: requests for reconciliation leave them out and say
 * so, operators resolve them, and evidence from elsewhere is kept (protocol, sections 7 and 8).
 */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { calls, lost, openHost, unresolved } from "./calls.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const { effect, events } = openHost(subject);

/** An inline effect that nobody can tell about. Returns its id. */
async function doubted(name: string): Promise<string> {
  await assert.rejects(effect(name, calls({ run: lost })), unresolved);
  return subject.value("select effect_id from audit.effects where name = $1", [name]);
}

describe("a request for reconciliation", () => {
  let inline = "";
  let ordinary = "";
  const counted = countedOperation("send_note", {
    dispatch: () => unknown("the connection was reset"),
    reconcile: async ({ target }) => ({ report: "accepted", proof: { receipt: target } }),
  });
  before(async () => {
    await subject.work({ operations: [counted.operation] });
    inline = await doubted("left out");
    ordinary = await ledger.enqueue(counted.operation, { to: "ana" });
    assert.equal((await subject.ended(ordinary)).state, "admitted");
  });

  test("for one inline effect, or for all of them, is refused and says what to do instead", async () => {
    const refusal = { code: "PE122", hint: /resolve/ };
    await assert.rejects(ledger.reconcile({ effect: inline, deadlineMs: 5_000 }), refusal);
    await assert.rejects(ledger.reconcile({ operation: "inline", deadlineMs: 5_000 }), refusal);
  });

  for (const scope of [{ all: true }, { task: "default" }] as const) {
    test(`for ${"all" in scope ? "all" : "a task"} leaves inline effects out, asks about the others, and says so`, async () => {
      const asked = await ledger.reconcile({ ...scope, deadlineMs: 20_000, includeUncertain: true });
      const [row] = await waitFor("it has ended", async () => {
        const rows = await subject.sql<{ ended: string | null }>(
          "select in_scope::int, inspected::int, skipped::int, ended from audit.reconciliations where reconciliation_id = $1",
          [asked],
        );
        return rows[0]?.ended ? rows : null;
      });
      const others = "all" in scope ? 1 : 0; // the first request found its proof
      assert.deepEqual(row, { in_scope: others, inspected: others, skipped: 1, ended: "finished" });
      assert.deepEqual(
        await subject.sql("select effect_id, because from audit.reconciliation_skips where reconciliation_id = $1", [
          asked,
        ]),
        [{ effect_id: inline, because: "inline" }],
      );
      assert.deepEqual(await events("left out"), ["requested", "prepared", "admitted", "intent", "unresolved"]);
    });
  }
});

describe("an operator", () => {
  for (const [what, name, resolve, says] of [
    [
      "evidence that it happened",
      "by evidence",
      "effects.resolve($1, 'accepted', '{\"statement\": 3}', 'on the statement')",
      "accepted",
    ],
    [
      "evidence that it did not",
      "by absence",
      "effects.resolve($1, 'no_effect', '{\"statement\": 3}', 'not on the statement')",
      "no_effect",
    ],
    ["an accepted risk", "by risk", "effects.accept_risk($1, 'ten cents')", null],
  ] as const) {
    test(`resolves one by ${what}; it is uncertain to its host all the same, and neither runs nor asks`, async () => {
      const id = await doubted(name);
      await subject.sql(`select ${resolve}`, [id]);
      assert.deepEqual(
        await subject.sql("select state, unresolved, resolution_says from audit.effects where effect_id = $1", [id]),
        [{ state: "uncertain", unresolved: false, resolution_says: says }],
      );
      const next = calls();
      assert.deepEqual(await effect(name, next), { outcome: "uncertain" });
      assert.deepEqual([next.ran(), next.asked()], [0, 0]);
    });
  }

  test("resolves none that may still run", async () => {
    const goOn = Promise.withResolvers<{ receipt: string }>();
    const running = effect("under way", calls({ run: () => goOn.promise }), {});
    const id = await waitFor("its intent stands", () =>
      subject.value<string>("select effect_id from audit.effects where name = 'under way'"),
    );
    await assert.rejects(subject.sql("select effects.accept_risk($1, 'impatience')", [id]), { code: "PE110" });
    goOn.resolve({ receipt: "r1" });
    assert.equal((await running).outcome, "accepted");
  });
});

test("evidence that disagrees with what its host recorded is a contradiction, and changes nothing", async () => {
  await effect("contradicted", calls());
  await subject.sql("select effects.add_source('bank', 'their statements', authoritative => true)");
  const said = await subject.value(
    `select effects.submit_evidence('bank', null, null, effect_id, 'no_effect', '{"statement": 3}') from audit.effects where name = 'contradicted'`,
  );
  assert.equal(said, "contradicts");
  assert.deepEqual(await effect("contradicted", calls()), {
    outcome: "accepted",
    proof: { receipt: "r1" },
    via: "run",
  });
  assert.equal(await subject.value("select recorded from audit.contradictions"), "accepted");
});
