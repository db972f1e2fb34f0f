/**
 * A hundred budgets of 500, of which 475 are used, and four processes that reserve 9 each on every one of them at once: two
 * are granted in each, and nobody ever sees more than the cap (protocol, section 5; case 10).
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { before, test } from "node:test";
import { RESERVING } from "../fixtures/reserve.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startRecipient } from "../harness/recipient.ts";
import { startSampler } from "../harness/sampler.ts";
import { waitFor } from "../harness/wait.ts";

const ROUNDS = 100;
const FOLDERS = join(import.meta.dirname, "..", "fixtures", "reserving");

const subject = await openTestLedger();
const recipient = await startRecipient(subject);

/** One effect of each operation under each round's task, all in one statement, or the one that uses 475 of each. */
const ENQUEUE = `select effects.enqueue(operation, json_build_object('url', $1 || 'round/' || round || '/' || operation, 'cents', $2::int),
    task => 'round ' || round, on_denial => 'decline') as id
  from generate_series(1, $3) as round, unnest($4::text[]) as operation`;

before(async () => {
  await Promise.all(RESERVING.map((_, place) => subject.child({ tasks: join(FOLDERS, String(place + 1)) })));
  await subject.sql(
    `select effects.open_task('round ' || round, budgets => '[{"unit": "usd_cents", "limit": 500}]')
       from generate_series(1, $1) as round`,
    [ROUNDS],
  );
});

const allEnded = (count: number) =>
  waitFor(
    "all have ended",
    async () =>
      (await subject.value(
        "select count(*) from effects_ledger.effect where state in ('accepted', 'declined') having count(*) = $1",
        [count],
      )) === String(count),
    { timeoutMs: 60_000 },
  );

test(`of four that reserve 9 where 25 are left two are granted, in each of ${ROUNDS} rounds at once`, async () => {
  await subject.sql(ENQUEUE, [recipient.url("used/"), 475, ROUNDS, RESERVING.slice(0, 1)]);
  await allEnded(ROUNDS);
  const sampler = await startSampler(subject);
  await subject.sql(ENQUEUE, [recipient.url(""), 9, ROUNDS, RESERVING]);
  await allEnded(5 * ROUNDS);
  await sampler.stop();
  assert.ok(sampler.snapshots > 50, `${sampler.snapshots} snapshots are too few to have seen anything`);

  const rounds = await subject.sql<{ ends: string; used: string; rounds: string }>(
    `select ends, used, count(*) as rounds
       from (select string_agg(regexp_replace(coalesce(e.denial_code, e.state), 'held|exceeded', 'x'), ' ' order by e.state) as ends,
                    b.reserved || ' ' || b.spent || ' ' || b.overrun as used
               from audit.effects e join effects_ledger.budget b on b.task_id = e.task
              group by b.task_id, b.unit) as round
      group by 1, 2`,
  );
  assert.deepEqual(rounds, [
    { ends: "accepted accepted accepted budget_x budget_x", used: "0 493 0", rounds: String(ROUNDS) },
  ]);
  const paths = recipient.receiver.requests.map(({ path }) => path);
  assert.equal(paths.length, 3 * ROUNDS);
  assert.equal(new Set(paths).size, 3 * ROUNDS);
});
