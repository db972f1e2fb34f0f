/** A charge beyond its task's budget: declined before anything is sent. */
import type { Stage } from "../stage.ts";
import type { Story } from "../story.ts";
import chargeCard from "../tasks/charge_card.ts";
import { WAIT_MS_MAX } from "../wait.ts";

/** What the task may spend in all. */
export const BUDGET_CENTS = 5_000n;
export const BEYOND_CENTS = 9_900;
export const CUSTOMER = "customer:43";

export async function askBeyondTheBudget(stage: Stage, story: Story, task: string): Promise<void> {
  const { cards, ledger } = stage;
  const input = { customer: CUSTOMER, cents: BEYOND_CENTS };
  const effectId = await ledger.enqueue(chargeCard, input, { task, name: "order/1002/charge" });
  const end = await ledger.outcome(chargeCard, effectId, { timeoutMs: WAIT_MS_MAX });
  story.saw("budget_declined", {
    state: end.state,
    reason: end.state === "declined" ? end.reason : null,
    code: end.state === "declined" ? end.code : null,
    requests: cards.requestsOf(CUSTOMER),
  });
}
