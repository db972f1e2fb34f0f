/**
 * An SMTP server on loopback without mailboxes (npm `smtp-server`): it takes custody of any mail to example.test, keeps
 * it in memory and never passes it on. The same Message-ID twice is two mails, as with every SMTP server.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { SMTPServerDataStream, SMTPServerEnvelope } from "smtp-server";
import { LedgerError } from "../../core/error.ts";
import { type AnswerHold, HeldAnswers } from "./held-answers.ts";
import { checkedDelayMs, type Listener, listenOnLoopback } from "./loopback.ts";

/** The only domain that is accepted; reserved for tests (RFC 6761), so that no real address is ever used. */
export const MAIL_DOMAIN = "example.test";

/** One message, its headers included. */
const MESSAGE_BYTES_MAX = 1_048_576;

export interface ReceivedMail {
  /** What the 250 named: `250 OK: queued as ID`. */
  readonly queueId: string;
  readonly from: string;
  readonly to: readonly string[];
  /** With its angle brackets; null if the message has none. */
  readonly messageId: string | null;
  readonly raw: Buffer;
}

export interface MailSinkOptions {
  /** How long the 250 to a message waits after the message was accepted, in milliseconds. Default 0. */
  readonly acceptanceDelayMs?: number;
}

export interface MailSink extends Listener {
  /** Messages accepted, in order. */
  readonly messages: readonly ReceivedMail[];
  /** How many: from the moment of custody, before the 250 leaves. */
  readonly accepted: number;
  /** Connections that broke off in the middle of a mail, by their client or by a fault. */
  readonly brokenConnections: number;
  messagesWith(messageId: string): readonly ReceivedMail[];
  /** From now on a message is accepted and its 250 waits. */
  holdAnswers(): AnswerHold;
}

/** @throws LedgerError `mail_sink_unavailable`, `delay_invalid`, `recipient_not_started` */
export async function startMailSink(options: MailSinkOptions = {}): Promise<MailSink> {
  const acceptanceDelayMs = checkedDelayMs("acceptanceDelayMs", options.acceptanceDelayMs ?? 0);
  const { SMTPServer } = await loadServer();
  const messages: ReceivedMail[] = [];
  const held = new HeldAnswers();
  let brokenConnections = 0;

  const accept = async (stream: SMTPServerDataStream, envelope: SMTPServerEnvelope): Promise<string> => {
    const { mailFrom, rcptTo } = envelope;
    const raw = Buffer.concat(await Array.fromAsync(stream as AsyncIterable<Buffer>));
    const queueId = `MAIL${String(messages.length + 1).padStart(6, "0")}`;
    messages.push({
      queueId,
      from: mailFrom === false ? "" : mailFrom.address,
      to: rcptTo.map((recipient) => recipient.address),
      messageId: messageIdOf(raw),
      raw,
    });
    if (acceptanceDelayMs > 0) await delay(acceptanceDelayMs, undefined, { ref: false });
    await held.wait();
    return `OK: queued as ${queueId}`;
  };

  const smtp = new SMTPServer({
    name: `mail.${MAIL_DOMAIN}`,
    size: MESSAGE_BYTES_MAX,
    disabledCommands: ["AUTH", "STARTTLS"],
    disableReverseLookup: true,
    onRcptTo(address, _session, callback) {
      if (address.address.toLowerCase().endsWith(`@${MAIL_DOMAIN}`)) callback();
      else callback(Object.assign(new Error(`mail is accepted for ${MAIL_DOMAIN} only`), { responseCode: 550 }));
    },
    onData(stream, session, callback) {
      accept(stream, session.envelope).then(
        (message) => callback(null, message),
        (error: Error) => callback(error),
      );
    },
  });
  // A client that goes away in the middle is an event of its own, not a fault of the sink.
  smtp.on("error", () => {
    brokenConnections += 1;
  });
  const listener = await listenOnLoopback(smtp.server);

  return {
    host: listener.host,
    port: listener.port,
    messages,
    get accepted() {
      return messages.length;
    },
    get brokenConnections() {
      return brokenConnections;
    },
    messagesWith: (messageId) => messages.filter((mail) => mail.messageId === messageId),
    holdAnswers: () => held.hold(),
    async stop() {
      held.abandon();
      await listener.stop();
    },
  };
}

/** `smtp-server` is an optional dependency: only the demo and the tests need it. */
async function loadServer(): Promise<typeof import("smtp-server")> {
  try {
    return await import("smtp-server");
  } catch (cause) {
    throw new LedgerError("mail_sink_unavailable", "npm package smtp-server is not installed", {
      hint: "install the optional dependencies",
      cause,
    });
  }
}

/** From the header block only (a body may quote another one); the field may be folded after its name. */
function messageIdOf(raw: Buffer): string | null {
  const headerEnd = raw.indexOf("\r\n\r\n");
  const header = raw.subarray(0, headerEnd === -1 ? raw.length : headerEnd).toString("latin1");
  return /^message-id:\s*(<[^>\r\n]*>)/im.exec(header)?.[1] ?? null;
}
