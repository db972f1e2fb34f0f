/** The play: the order of the scenes, and which worker is alive in which. It decides nothing about what was observed. */
import { type AuditAnswer, audit } from "./audit.ts";
import { type Compared, compare, tellComparison } from "./comparison.ts";
import { type PlainFacts, playPlain } from "./plain/play.ts";
import { askBeyondTheBudget, BUDGET_CENTS } from "./scenes/budget.ts";
import { becomesUnresolved, killWhileAnswering, redeliverAndReconcile } from "./scenes/charge.ts";
import { cutAnInsert } from "./scenes/insert.ts";
import { loseThe250 } from "./scenes/mail.ts";
import { tellPlain } from "./scenes/plain.ts";
import { cutTheAnswerOfAPush } from "./scenes/push.ts";
import type { Stage } from "./stage.ts";
import type { Story } from "./story.ts";
import { startEffectsWorker } from "./workers.ts";

export interface Played {
  readonly compared: readonly Compared[];
  readonly audit: readonly AuditAnswer[];
}

const TASK = "customers/42";

export async function play(stage: Stage, story: Story): Promise<Played> {
  // Beside the scenes, told after them. Whatever becomes of it is looked at there, and awaited in any case.
  const plain = playPlain(stage);
  const effects = playEffects(stage, story);
  // Whichever fails first ends the other, and both are awaited: what goes on would play on a stage that is gone.
  for (const side of [plain, effects]) side.catch(stage.fail);
  await Promise.allSettled([plain, effects]);
  stage.signal.throwIfAborted();
  await effects;
  return end(stage, story, await plain);
}

async function playEffects(stage: Stage, story: Story): Promise<void> {
  const killed = await startEffectsWorker(stage, "the worker that is killed");
  await stage.ledger.openTask(TASK, { budgets: { usd_cents: BUDGET_CENTS } });

  story.chapter("A charge; its worker is killed while the card API answers");
  const charge = await killWhileAnswering(stage, story, killed, TASK);
  const [worker] = await Promise.all([
    startEffectsWorker(stage, "the worker"),
    becomesUnresolved(stage, story, charge),
  ]);
  story.line(`      (a new worker runs, process ${worker.processId}; meanwhile, the others)`);

  story.chapter("A push to a git repository; its answer is cut");
  await cutTheAnswerOfAPush(stage, story, TASK);
  story.chapter("A row for another Postgres database; the insert is cut before it arrives");
  await cutAnInsert(stage, story, TASK);
  story.chapter("A mail; the server's 250 is lost");
  await loseThe250(stage, story, TASK);
  story.chapter("A charge beyond the budget");
  await askBeyondTheBudget(stage, story, TASK);
  story.chapter("The charge again");
  await redeliverAndReconcile(stage, story, charge, killed);
}

function end(stage: Stage, story: Story, plain: PlainFacts): Promise<Played> {
  story.chapter("The same faults, the same recipients, and plain graphile-worker tasks at their defaults");
  tellPlain(story, plain);
  story.line("      (these tasks send no Idempotency-Key: a task has none unless its author makes one, say of the");
  story.line("      job's id; with one, the API would have answered the second charge with the first)");

  story.chapter("Side by side: requests that the recipients counted");
  const compared = compare(story, plain);
  tellComparison(story, compared);
  story.line(
    "  pg-effects never sends again by itself: after no_effect somebody asks for a new effect, and the mail stays",
  );
  story.line(
    "  uncertain until somebody can tell. Where a second try is harmless, as for the insert, a queue is simpler.",
  );

  story.chapter("What an auditor types");
  return audit(stage, story).then((answers) => ({ compared, audit: answers }));
}
