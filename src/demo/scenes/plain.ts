/** Tells what the plain queue did under the same faults. The facts were observed beside the other scenes. */
import type { PlainFacts } from "../plain/play.ts";
import type { Story } from "../story.ts";

export function tellPlain(story: Story, facts: PlainFacts): void {
  const { attempts, branch_moved, requests, requests_in_first_try } = facts.push;
  story.saw("plain_charge_locked", facts.locked);
  story.saw("plain_charge_again", facts.charge);
  story.saw("plain_push_moved", { done: attempts > 0, branch_moved }, { requests });
  if (requests_in_first_try > 1) {
    story.line("      (git's own HTTP client had sent it twice within the first try, without being asked to)");
  }
  story.saw("plain_insert_second", facts.insert);
  story.saw("plain_mail_twice", facts.mail);
  story.saw("plain_budget_charged", facts.budget);
}
