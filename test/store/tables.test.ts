import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import pg from "pg";
import { DENIALS } from "../../src/core/denial.ts";
import { mayMove, STATES } from "../../src/core/state.ts";
import { createTestDatabase, type TestDatabase } from "../harness/database.ts";

let database: TestDatabase;
let client: pg.Client;
before(async () => {
  database = await createTestDatabase();
  client = new pg.Client({ connectionString: database.connectionString });
  await client.connect();
});
after(async () => {
  await client.end();
  await database.drop();
});

test("the database moves an effect exactly where core/state.ts does", async () => {
  const pairs = STATES.flatMap((from) => STATES.map((to) => ({ from_state: from, to_state: to })));
  const { rows } = await client.query(
    `select from_state, to_state, effects_ledger.may_move(from_state, to_state) as moves
       from json_to_recordset($1) as pair (from_state text, to_state text)`,
    [JSON.stringify(pairs)],
  );
  assert.deepEqual(
    rows,
    pairs.map((pair) => ({ ...pair, moves: mayMove(pair.from_state, pair.to_state) })),
  );
});

test("the database and core/denial.ts hold the same denials, in the same order of precedence", async () => {
  // From rank 101 on: what preparation says, which is no denial of an admission.
  const { rows } = await client.query(
    "select code, transient, waiting_for from effects_ledger.denial where rank < 100 order by rank",
  );
  assert.deepEqual(
    rows,
    Object.entries(DENIALS).map(([code, waitingFor]) => ({
      code,
      transient: waitingFor !== null,
      waiting_for: waitingFor,
    })),
  );
});

test("the denials are the protocol's list", () => {
  const list =
    "permit_consumed recovery_unacknowledged violation_unacknowledged ledger_standby durability_missing binding_expired " +
    "binding_mismatch payload_mismatch invocation_ended operation_withdrawn operation_not_allowed unsupported " +
    "implementation_changed binding_unstable task_revoked task_ended task_expired actor_revoked paused not_yet " +
    "policy_missing policy_revoked policy_expired policy_exhausted approval_required approval_refused " +
    "predecessor_accepted predecessor_contradicted budget_missing budget_exceeded budget_held doubt_limit lane_busy";
  assert.equal(Object.keys(DENIALS).join(" "), list);
});
