/** The table at the end: what was observed of each effect on both sides, side by side. It computes nothing new. */
import type { ClaimName } from "./claims.ts";
import type { PlainFacts } from "./plain/play.ts";
import type { Observation, Story } from "./story.ts";
import { textTable } from "./text-table.ts";

export interface Compared {
  readonly effect: string;
  readonly fault: string;
  readonly ledger_says: string;
  /** Requests that the recipient counted, with pg-effects and with the plain queue. */
  readonly requests: number;
  readonly plain_requests: number;
  readonly plain_did: string;
}

const COLUMNS = ["effect", "fault", "the ledger says", "requests", "plain queue", "what the plain queue did"];

export function compare(story: Story, plain: PlainFacts): readonly Compared[] {
  const last = (claim: ClaimName) => story.observations.findLast((each) => each.claim === claim);
  const row = (effect: string, fault: string, claim: ClaimName, plainRequests: number, plainDid: string): Compared => ({
    effect,
    fault,
    ledger_says: words(last(claim)),
    requests: last(claim)?.requests ?? Number.NaN,
    plain_requests: plainRequests,
    plain_did: plainDid,
  });
  return [
    row(
      "charge_card",
      "worker killed, API answering",
      "charge_accepted",
      plain.charge.requests,
      `${plain.charge.booked} charges, after its lock was freed`,
    ),
    row("git_push", "answer cut", "push_accepted", plain.push.requests, pushWords(plain.push)),
    row(
      "postgres_insert",
      "cut before it arrived",
      "insert_late_refused",
      plain.insert.requests,
      "inserted at its second try: right here",
    ),
    row("mail_send", "250 lost", "mail_uncertain", plain.mail.requests, `${plain.mail.requests} mails`),
    row("charge_card", "over budget", "budget_declined", plain.budget.requests, "charged: it has no budgets"),
  ];
}

export function tellComparison(story: Story, compared: readonly Compared[]): void {
  const rows = compared.map((each) => [
    each.effect,
    each.fault,
    each.ledger_says,
    `${each.requests}${each.ledger_says.startsWith("no_effect") ? " (late, refused)" : ""}`,
    String(each.plain_requests),
    each.plain_did,
  ]);
  for (const line of textTable(COLUMNS, rows)) story.line(`  ${line}`);
}

function pushWords({ requests }: PlainFacts["push"]): string {
  return requests > 1 ? "asked again and found the branch moved" : "found the branch moved";
}

function words(seen: Observation | undefined): string {
  if (!seen) return "not observed";
  const { state, via } = seen.observed;
  return via === "reconcile" ? `${state} (by reconcile)` : String(state);
}
