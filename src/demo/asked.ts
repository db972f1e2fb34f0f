/** The recipients' last word on the effects of pg-effects: whether any was asked for more than once. Needs no database. */
import { CUSTOMER as BEYOND_CUSTOMER } from "./scenes/budget.ts";
import { CUSTOMER } from "./scenes/charge.ts";
import { mailsTo, TO } from "./scenes/mail.ts";
import { BRANCH } from "./scenes/push.ts";
import type { Stage } from "./stage.ts";

/**
 * How many effects were asked for twice or more often. The insert is not among them: what its recipient knows is in its
 * database, which may be gone; its key is primary there.
 */
export function askedTwice({ cards, git, mail }: Stage): number {
  const requests = [
    cards.requestsOf(CUSTOMER),
    cards.requestsOf(BEYOND_CUSTOMER),
    git.pushesTo(BRANCH),
    mailsTo(mail, TO),
  ];
  return requests.filter((count) => count > 1).length;
}
