/**
 * The charge: its worker is killed by SIGKILL while the card API answers. In two parts, because the killed worker's job is
 * given to another only when it has been silent for 15 seconds; other scenes play in between.
 */
import { reconciled, see } from "../effects.ts";
import { contains } from "../recipients/fault-rule.ts";
import type { Stage } from "../stage.ts";
import type { Story } from "../story.ts";
import chargeCard from "../tasks/charge_card.ts";
import { reached, until } from "../wait.ts";
import type { WorkerChild } from "../worker-child.ts";
import { workerPattern } from "../workers.ts";

export const CUSTOMER = "customer:42";
export const CENTS = 4_200;

/** 15 s of silence, the beat in which the other worker looks (4 s), and room. */
const REDELIVERED_MS_MAX = 35_000;

export interface ChargeInDoubt {
  readonly effectId: string;
  readonly key: string;
}

export async function killWhileAnswering(
  stage: Stage,
  story: Story,
  worker: WorkerChild,
  task: string,
): Promise<ChargeInDoubt> {
  const { cards, effects, ledger, signal } = stage;
  const answer = effects.cards.holdReply({ to: contains("POST /v1/charges") });
  const effectId = await ledger.enqueue(
    chargeCard,
    { customer: CUSTOMER, cents: CENTS },
    { task, name: "order/1001/charge" },
  );
  await reached("the charge at the card API", answer.reached, signal);
  const { key } = await see(stage, effectId);
  story.saw("charge_sent", { booked: cards.chargesFor(key).length, requests: cards.requestsFor(key) });

  const ended = await worker.kill();
  answer.drop();
  story.saw("charge_killed", { signal: ended, requests: cards.requestsFor(key) });
  return { effectId, key };
}

export async function becomesUnresolved(stage: Stage, story: Story, { effectId, key }: ChargeInDoubt): Promise<void> {
  const { state, unresolved, held } = await until(
    "the end of the charge's dispatch window",
    async () => {
      const seen = await see(stage, effectId);
      const { rows } = await stage.databases.pools.ledger.query<{ held: string }>(
        "select held ->> 'usd_cents' as held from audit.unresolved where effect_id = $1",
        [effectId],
      );
      return rows[0] ? { ...seen, held: rows[0].held } : null;
    },
    stage,
  );
  story.saw("charge_unresolved", { state, unresolved, held, requests: stage.cards.requestsFor(key) });
}

/** The killed worker's job comes to the worker that lives; and only then is the recipient asked. */
export async function redeliverAndReconcile(
  stage: Stage,
  story: Story,
  { effectId, key }: ChargeInDoubt,
  killed: WorkerChild,
): Promise<void> {
  const { cards } = stage;
  const freed = await until("the killed worker's job at another worker", () => redelivered(stage, effectId, killed), {
    signal: stage.signal,
    ms: REDELIVERED_MS_MAX,
  });
  const before = await see(stage, effectId);
  story.saw("charge_redelivered", {
    state: before.state,
    unresolved: before.unresolved,
    ...freed,
    requests: cards.requestsFor(key),
  });

  const after = await reconciled(stage, effectId);
  story.saw("charge_accepted", {
    state: after.state,
    via: after.via,
    same_charge: after.reference !== null && after.reference === cards.chargesFor(key)[0]?.id,
    booked: cards.chargesFor(key).length,
    requests: cards.requestsFor(key),
  });
}

/** A job that is gone was completed; the dead did not do it, so the living did. */
async function redelivered(stage: Stage, effectId: string, killed: WorkerChild) {
  const { rows } = await stage.databases.pools.ledger.query<{ silent_15_s: boolean | null; jobs_left: number }>(
    `select (select freed_at - heartbeat_at >= interval '15 s' from effects_ledger.worker where worker ~ $1) as silent_15_s,
            (select count(*)::int from effects_queue.jobs where key = $2) as jobs_left`,
    [workerPattern(killed), effectId],
  );
  const [found] = rows;
  return found && found.silent_15_s !== null && found.jobs_left === 0 ? found : null;
}
