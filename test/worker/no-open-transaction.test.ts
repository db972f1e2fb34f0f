/** No call leaves while a transaction is open, seen from outside (style, habit 4; case 11). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { QueryResult } from "pg";
import { absent, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const observer = await subject.connect();

/** Who of ours has a transaction open. A statement under way (a heartbeat, a look for jobs) is a transaction for itself. */
const LOOK = `select
    (select json_agg(json_build_array(application_name, state, query)) from pg_stat_activity
      where datname = current_database() and application_name like 'pg-effects%' and state like 'idle in transaction%') as open,
    (select json_agg(json_build_array(pid, xact_start)) from pg_stat_activity
      where datname = current_database() and application_name like 'pg-effects%' and xact_start is not null) as running,
    (select json_object_agg(effect_id, state) from effects_ledger.effect) as states,
    (select count(*) from effects_ledger.permit) as permits,
    (select count(*) from effects_ledger.inspection) as inspections,
    (select count(*) from effects_ledger.inspection_report) as reports`;
interface Seen {
  readonly open: unknown;
  readonly running: unknown[] | null;
  readonly states: Readonly<Record<string, string>>;
  readonly permits: string;
  readonly inspections: string;
  readonly reports: string;
}

/** What stood at the instant of the call, and then, while it lasts, that whatever was running then ends without it. */
async function lookDuringCall(calls: Seen[]) {
  const { rows } = (await observer.query(LOOK)) as QueryResult<Seen>;
  const seen = rows[0] as Seen;
  calls.push(seen);
  for (const running of seen.running ?? []) {
    await waitFor(`a statement that ran at the instant of the call ends: ${JSON.stringify(running)}`, async () => {
      const now = (await observer.query(LOOK)) as QueryResult<Seen>;
      return !(now.rows[0]?.running ?? []).some((other) => JSON.stringify(other) === JSON.stringify(running));
    });
  }
}
const preparations: Seen[] = [];
const dispatches: Seen[] = [];
const lookups: Seen[] = [];

const { operation } = countedOperation("send_note", {
  prepare: () => lookDuringCall(preparations),
  dispatch: async () => {
    await lookDuringCall(dispatches);
    return unknown("nobody can tell");
  },
  reconcile: async () => {
    await lookDuringCall(lookups);
    return absent(null);
  },
});

before(async () => {
  await subject.work({ operations: [operation] });
});

test("while an adapter is called no session of ours has a transaction open, and what allows the call is committed", async () => {
  const ids: string[] = [];
  for (const to of ["a", "b", "c", "d", "e"]) {
    const id = await ledger.enqueue(operation, { to });
    ids.push(id);
    await subject.ended(id);
    await ledger.reconcile({ effect: id, deadlineMs: 10_000 });
    await waitFor("it was asked about", async () => (await ledger.observe(id))?.state === "uncertain");
  }
  assert.deepEqual([preparations.length, dispatches.length, lookups.length], [5, 5, 5]);
  for (const [place, id] of ids.entries()) {
    for (const call of [preparations[place], dispatches[place], lookups[place]]) assert.equal(call?.open, null);
    assert.equal(preparations[place]?.states[id], "requested");
    assert.deepEqual([dispatches[place]?.states[id], dispatches[place]?.permits], ["admitted", String(place + 1)]);
    assert.deepEqual([lookups[place]?.inspections, lookups[place]?.reports], [String(place + 1), String(place)]);
  }
});
