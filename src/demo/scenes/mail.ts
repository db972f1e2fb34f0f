/** The mail: the server takes custody, and its 250 is lost. It has no mailboxes, so nobody can be asked: it stays uncertain. */
import { ending, reconciled } from "../effects.ts";
import { contains, type Match } from "../recipients/fault-rule.ts";
import type { MailSink } from "../recipients/mail-sink.ts";
import type { Stage } from "../stage.ts";
import type { Story } from "../story.ts";
import mailSend from "../tasks/mail_send.ts";
import { reached } from "../wait.ts";

/** The end of the message (RFC 5321): what the lost 250 answers. */
export const THE_MESSAGE: Match = contains("\r\n.\r\n");

export const MAIL = { from: "shop@example.test", subject: "Your receipt", text: "Order 1001: paid." } as const;
export const TO = "ana@example.test";

export async function loseThe250(stage: Stage, story: Story, task: string): Promise<void> {
  const { effects, ledger, mail, signal } = stage;
  const cut = effects.mail.cutReply({ to: THE_MESSAGE });
  const input = { ...MAIL, to: TO, mailbox: "INBOX" };
  const effectId = await ledger.enqueue(mailSend, input, { task, name: "order/1001/receipt" });
  await reached("the 250 to the mail", cut.reached, signal);
  const { state, unresolved } = await ending(stage, effectId);
  story.saw("mail_unresolved", { state, unresolved, requests: mailsTo(mail, TO) });

  const after = await reconciled(stage, effectId);
  story.saw("mail_uncertain", {
    state: after.state,
    unresolved: after.unresolved,
    resolution: after.resolution,
    requests: mailsTo(mail, TO),
  });
}

/** Mails that the server took for this address. */
export function mailsTo(mail: MailSink, address: string): number {
  return mail.messages.filter(({ to }) => to.includes(address)).length;
}
