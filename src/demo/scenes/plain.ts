/** Tells what the plain queue did under the same faults. The facts were observed beside the other scenes. */
import type { PlainFacts } from "../plain/play.ts";
import type { Story } from "../story.ts";

export function tellPlain(story: Story, facts: PlainFacts): void {
  const { requests, ...push } = facts.push;
  story.saw("plain_charge_locked", facts.locked);
  story.saw("plain_charge_again", facts.charge);
  story.saw("plain_push_settled", push);
  story.line(`      (its branch was asked for by ${requests === 1 ? "1 request" : `${requests} requests`})`);
  story.saw("plain_insert_second", facts.insert);
  story.saw("plain_mail_twice", facts.mail);
  story.saw("plain_budget_charged", facts.budget);
}
