/**
 * Whatever the tree, whatever is asked under it at once and taken away meanwhile: no snapshot shows a budget that rose past
 * its limit, no key is used twice, and what is left on every budget is what the ends of its effects leave.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import spend from "../fixtures/spending/spend.ts";
import { left, lineage, type Plan, plans, type Step } from "../fixtures/tree-plan.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startRecipient } from "../harness/recipient.ts";
import { type Sampler, startSampler } from "../harness/sampler.ts";
import { waitFor } from "../harness/wait.ts";

const WORKERS = 3;
const RUNS_MAX = 12;
const TIME_MAX_MS = 10_000;
const TASKS = fileURLToPath(new URL("../fixtures/spending", import.meta.url));

/** What each end leads to where the effect was admitted. */
const STATES = { accepted: "accepted", refused: "failed", broken: "failed", lost: "admitted", "not sent": "no_effect" };

const subject = await openTestLedger();
const { ledger } = subject;
const recipient = await startRecipient(subject);
let sampler: Sampler;
let runs = 0;
const seen = new Map<string, number>();

before(async () => {
  await Promise.all(Array.from({ length: WORKERS }, () => subject.child({ tasks: TASKS, concurrency: 10 })));
  sampler = await startSampler(subject);
});

test("whatever the tree and whatever is taken away meanwhile, no budget rises past its limit and no key is used twice", async (t) => {
  const over = performance.now() + TIME_MAX_MS;
  const property = fc.asyncProperty(plans, async (plan) => {
    if (performance.now() < over) await play(plan);
  });
  // The next run's timing is another one: a smaller plan would show nothing.
  await fc.assert(property, { numRuns: RUNS_MAX, endOnFailure: true });
  await sampler.stop();
  t.diagnostic(`${runs} trees, ${sampler.snapshots} snapshots, ${[...seen].map((each) => each.join(": ")).join(", ")}`);
  assert.ok(sampler.snapshots > 50 * runs, `${sampler.snapshots} snapshots are too few to have seen anything`);
  assert.ok(seen.get("accepted") && seen.get("declined"), "nothing was granted, or nothing was denied");
});

const OPEN =
  "state = 'requested' or state = 'prepared' and waiting_for is null or state = 'admitted' and not unresolved";
const none = (asked: ReadonlyMap<string, unknown>, standing: string) =>
  subject.value<boolean>(`select not exists (select from audit.effects where effect_id = any ($1) and (${standing}))`, [
    [...asked.keys()],
  ]);

/** Asks for everything and changes everything, then compares what is left. */
async function play(plan: Plan): Promise<void> {
  const run = ++runs;
  const name = (task: number) => `tree ${run}, task ${task}`;
  for (const [place, { parent, budgets }] of plan.tasks.entries()) {
    const limits = Object.fromEntries(Object.entries(budgets).map(([unit, limit]) => [unit, BigInt(limit)]));
    await ledger.openTask(name(place), { ...(parent !== null && { parent: name(parent) }), budgets: limits });
  }
  const asked = new Map<string, Extract<Step, { step: "ask" }>>();
  const revoked = new Set<number>();
  let burst: Promise<unknown>[] = [];
  for (const [place, step] of plan.steps.entries()) {
    const task = name(step.task);
    if (step.step !== "ask") {
      await Promise.all(burst);
      burst = [];
    }
    switch (step.step) {
      case "ask": {
        // A task that has ended takes no request: nothing is asked there any more.
        if (lineage(plan, step.task).some((place) => revoked.has(place))) break;
        const { most, spends, ends, onDenial } = step;
        const input = { url: recipient.url(`${run}/${place}`), most, spends, ends };
        burst.push(ledger.enqueue(spend, input, { task, onDenial }).then((id) => asked.set(id, step)));
        break;
      }
      case "limit":
        sampler.settingLimit(task, step.unit, BigInt(step.limit));
        await subject.sql("select effects.set_budget($1, $2, $3, 'the plan says so')", [task, step.unit, step.limit]);
        break;
      case "revoke":
        revoked.add(step.task);
        await subject.sql("select effects.revoke_task($1, 'the plan says so')", [task]);
        break;
      case "pause":
        await ledger.pause({ task, reason: "the plan says so" });
        break;
      case "resume":
        await ledger.resume({ task, reason: "the plan says so" }).catch((error: { code?: string }) => {
          assert.equal(error.code, "22023", "nothing is paused so");
        });
    }
  }
  await Promise.all(burst);
  await waitFor("everything has ended or waits for something", () => none(asked, OPEN));
  // What still waits is declined with its task, so that nothing moves while it is counted.
  for (const [place, { parent }] of plan.tasks.entries()) {
    if (parent === null) await subject.sql("select effects.revoke_task($1, 'the plan is over')", [name(place)]);
  }
  await waitFor("nothing waits any more", () => none(asked, `${OPEN} or state = 'prepared'`));
  await compare(plan, name, asked);
}

async function compare(
  plan: Plan,
  name: (task: number) => string,
  asked: ReadonlyMap<string, Extract<Step, { step: "ask" }>>,
): Promise<void> {
  const effects = await subject.sql<{ effect_id: string; state: string; key: string }>(
    "select effect_id, state, key from audit.effects where effect_id = any ($1)",
    [[...asked.keys()]],
  );
  const budgets = new Map<string, { reserved: number; spent: number }>();
  const hits = Map.groupBy(recipient.receiver.requests, ({ headers }) => String(headers["effect-key"]));
  for (const { effect_id, state, key } of effects) {
    const step = asked.get(effect_id) ?? assert.fail(effect_id);
    const admitted = state !== "declined";
    assert.equal(hits.get(key)?.length ?? 0, admitted && step.ends !== "not sent" ? 1 : 0, `${effect_id} is ${state}`);
    seen.set(state, (seen.get(state) ?? 0) + 1);
    if (!admitted) continue;
    assert.equal(state, STATES[step.ends]);
    for (const place of lineage(plan, step.task)) {
      for (const unit of Object.keys(plan.tasks[place]?.budgets ?? {})) {
        const sums = budgets.get(`${name(place)} ${unit}`) ?? { reserved: 0, spent: 0 };
        const { reserved, spent } = left(step.most, step.spends, step.ends, unit);
        budgets.set(`${name(place)} ${unit}`, { reserved: sums.reserved + reserved, spent: sums.spent + spent });
      }
    }
  }
  const rows = await subject.sql<{ budget: string; reserved: string; spent: string; overrun: string }>(
    `select t.name || ' ' || b.unit as budget, b.reserved, b.spent, b.overrun
       from effects_ledger.budget b join effects_ledger.task t using (task_id) where t.name = any ($1)`,
    [plan.tasks.map((_, place) => name(place))],
  );
  for (const { budget, ...sums } of rows) {
    const { reserved, spent } = budgets.get(budget) ?? { reserved: 0, spent: 0 };
    assert.deepEqual(sums, { reserved: String(reserved), spent: String(spent), overrun: "0" }, budget);
  }
}
