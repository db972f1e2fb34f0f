/** What a lookup reports, and what the ledger records of it (protocol, section 7). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { absent, accepted, failed, fenced, type ReconcileReport, type Standing, unknown } from "../../src/index.ts";
import { countedOperation, type Receipt } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;

const LOOKUPS: Readonly<Record<string, () => Promise<ReconcileReport<Receipt>> | ReconcileReport<Receipt>>> = {
  accepted: () => accepted({ receipt: "r1" }, { cost: { usd_cents: 3n } }),
  failed: () => failed({ code: "refused" }),
  absent: () => absent({ matches: 0 }),
  unknown: () => unknown("two matches: r1, r2"),
  "fenced, without a fence in the contract": () => fenced({ mark: "void" }),
  throws: () => {
    throw new Error("429: ask later");
  },
  "never settles": () => new Promise(() => {}),
  "a refusal that is not listed": () => failed({ code: "odd" }),
  "a proof that is none": () => accepted({ receipt: 5 } as unknown as Receipt),
  "no report": () => ({ report: "found" }) as unknown as ReconcileReport<Receipt>,
};

const { operation, hits, asked } = countedOperation("send_note", {
  contract: { reconcileTimeoutMs: 300, failures: { refused: { effect: "none" } } },
  dispatch: () => unknown("the line went dead"),
  reconcile: async ({ target }) => (LOOKUPS[target] as (typeof LOOKUPS)[string])(),
});
const silent = countedOperation("send_silent", { dispatch: () => unknown("the line went dead") });

before(() => subject.work({ operations: [operation, silent.operation] }));

interface Inspected {
  readonly standing: Standing;
  readonly sums: string;
  readonly report: string;
  readonly recorded: string | null;
  readonly reason: string | null;
  readonly request: Readonly<Record<string, unknown>>;
}

/** An effect of at most 10 that nobody can tell about, asked about once. */
async function inspect(to: string, { operation: its } = { operation }): Promise<Inspected> {
  const task = `asked about ${to}`;
  await ledger.openTask(task, { budgets: { usd_cents: 10n } });
  const id = await ledger.enqueue(its, { to, cents: 10 }, { task });
  await subject.ended(id);
  const reconciliation = await ledger.reconcile({ effect: id, deadlineMs: 60_000 });
  const request = await waitFor("the reconciliation ends", async () => {
    const [row] = await subject.sql<Record<string, unknown>>(
      `select ended, in_scope, inspected, recorded, could_not_ask, not_reached from audit.reconciliations
        where reconciliation_id = $1`,
      [reconciliation],
    );
    return row?.ended ? row : null;
  });
  const [inspection] = await subject.sql<{ report: string; recorded: string | null; reason: string | null }>(
    "select report, recorded, reason from audit.inspections where effect_id = $1",
    [id],
  );
  const [budget] = await subject.sql<Record<string, string>>(
    "select b.reserved, b.spent, b.overrun from effects_ledger.budget b join effects_ledger.task t using (task_id) where t.name = $1",
    [task],
  );
  const standing = await ledger.observe(id);
  assert.ok(standing && inspection && budget);
  assert.equal(hits(to) + silent.hits(to), 1, "it was sent again");
  return { standing, ...inspection, sums: Object.values(budget).join(" "), request };
}
const counts = (recorded: number, couldNotAsk: number) => ({
  ended: "finished",
  in_scope: "1",
  inspected: "1",
  recorded: String(recorded),
  could_not_ask: String(couldNotAsk),
  not_reached: "0",
});

test("a proof is recorded as accepted via reconcile, with the measured cost", async () => {
  const { standing, ...rest } = await inspect("accepted");
  const proof = { receipt: "r1" };
  assert.deepEqual({ ...standing }, { state: "accepted", proof, via: "reconcile", cost: { usd_cents: 3n } });
  assert.deepEqual(rest, {
    report: "accepted",
    recorded: "accepted",
    reason: null,
    sums: "0 3 0",
    request: counts(1, 0),
  });
});

test("the recipient's own word that it failed is recorded as failed", async () => {
  const { standing, ...rest } = await inspect("failed");
  assert.deepEqual({ ...standing }, { state: "failed", evidence: { code: "refused" }, cost: { usd_cents: 0n } });
  assert.deepEqual(rest, { report: "failed", recorded: "failed", reason: null, sums: "0 0 0", request: counts(1, 0) });
});

for (const to of ["absent", "unknown"]) {
  test(`a lookup that says ${to} is final and proves nothing: uncertain, and the maximum stays reserved`, async () => {
    const { standing, reason, ...rest } = await inspect(to);
    assert.deepEqual({ ...standing }, { state: "uncertain", unresolved: true, resolution: null });
    assert.deepEqual(rest, { report: to, recorded: "uncertain", sums: "10 0 0", request: counts(1, 0) });
    assert.ok(reason);
  });
}

test("an operation without a lookup can only be uncertain", async () => {
  const { standing, report } = await inspect("no lookup", silent);
  assert.deepEqual([standing.state, report], ["uncertain", "unknown"]);
});

for (const [to, reason] of [
  ["throws", /429: ask later/],
  ["never settles", /no answer within 300 ms/],
  ["no report", /no report that is known/],
] as const) {
  test(`a lookup that could not ask (${to}) records nothing about the effect`, async () => {
    const { standing, ...rest } = await inspect(to);
    assert.ok(standing.state === "admitted" && standing.unresolved);
    assert.match(rest.reason ?? "", reason);
    assert.deepEqual(
      { ...rest, reason: null },
      { report: "could_not_ask", recorded: null, reason: null, sums: "10 0 0", request: counts(0, 1) },
    );
  });
}

for (const to of ["a refusal that is not listed", "a proof that is none", "fenced, without a fence in the contract"]) {
  test(`a lookup that reports ${to} concludes nothing`, async () => {
    const { standing, recorded, reason, sums } = await inspect(to);
    assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
    assert.deepEqual([recorded, sums], [null, "10 0 0"]);
    assert.ok(reason);
  });
}

test("an effect that was asked about and stayed unresolved is asked about again by the next request, an uncertain one is not", async () => {
  const again = await ledger.reconcile({ operation: "send_note", deadlineMs: 60_000 });
  const done = () =>
    subject.value<boolean>("select ended is not null from audit.reconciliations where reconciliation_id = $1", [again]);
  await waitFor("the reconciliation ends", done);
  assert.deepEqual(["throws", "never settles", "absent", "unknown", "accepted"].map(asked), [2, 2, 1, 1, 1]);
});
