/**
 * mail_send: hands one mail to an SMTP server. Its Message-ID is made of the effect's key, so that a mailbox can be asked.
 *
 * A 250 to the message is custody, not delivery. SMTP has no conditional write: a mailbox without the mail proves nothing,
 * and the same Message-ID sent twice is two mails, so nothing here ever sends again.
 *
 * By nodemailer's connection, not its transport: an error of the transport does not tell whether the message had left,
 * and that is the one thing to know. It must never read a file or a URL into a mail, or wait beyond the signal.
 */
import { Readable } from "node:stream";
import { ImapFlow } from "imapflow";
import MailComposer from "nodemailer/lib/mail-composer";
import SMTPConnection from "nodemailer/lib/smtp-connection";
import { z } from "zod";
import {
  type AdapterContext,
  absent,
  accepted,
  type BoundEffect,
  type DispatchReport,
  defineOperation,
  failed,
  LedgerError,
  notSent,
  type ReconcileReport,
  unknown,
} from "../src/index.ts";

const address = z.email().max(254);
const input = z.strictObject({
  to: address,
  from: address,
  subject: z
    .string()
    .min(1)
    .max(500)
    .regex(/^\P{Cc}*$/u, "one line"),
  text: z.string().min(1).max(12_000),
  /** Where a lookup searches, in the account of MAIL_IMAP_URL. */
  mailbox: z
    .string()
    .min(1)
    .max(200)
    .regex(/^\P{Cc}*$/u)
    .default("INBOX"),
});
const proof = z.strictObject({
  messageId: z.string(),
  /** The server's line of custody; null where a lookup found the mail. */
  response: z.string().nullable(),
  /** Where a lookup found it. */
  found: z.string().nullable(),
});

type Mail = z.infer<typeof input>;
type Proof = z.infer<typeof proof>;
type Bound = BoundEffect<Mail>;

/** How far the message itself has come. While it is `kept`, no server can have accepted it. */
type Progress = { stage: "connect" | "login" | "envelope" | "message"; message: "kept" | "begun" | "handed over" };

/** One reply of a server, in bytes. RFC 5321 asks for 512; multi-line ones are longer. */
const REPLY_BYTES_MAX = 65_536;
/** One answer of a mailbox, in bytes: headers and a text of our own size. */
const MAILBOX_BYTES_MAX = 1_048_576;

export default defineOperation<Mail, Proof, Mail, z.input<typeof input>>({
  name: "mail_send",
  version: 1,
  input,
  proof,
  contract: {
    failures: { rejected: { effect: "none" }, try_later: { effect: "none" } },
    accepts: "the mail server took custody; not that the mail was delivered",
    bindingBytesMax: 32_768, // the longest text, with room for its escapes
    reference: (sent) => sent.messageId,
    secrets: ["MAIL_SMTP_URL", "MAIL_IMAP_URL"],
  },

  prepare: (mail, context) => ({
    target: `mailto:${mail.to}`,
    account: serverAt(context.secret("MAIL_SMTP_URL"), SMTP).account,
    payload: mail,
    preview: `mail from ${mail.from} to ${mail.to}: ${mail.subject}`,
  }),

  dispatch: async (effect, context) => {
    const server = serverAt(context.secret("MAIL_SMTP_URL"), SMTP);
    if (server.account !== effect.account) return notSent({ reason: "MAIL_SMTP_URL names another account than bound" });
    const content = await compose(effect);
    const progress: Progress = { stage: "connect", message: "kept" };
    try {
      const response = await hand(content, effect, server, context, progress);
      if (!/^250[ -]/.test(response) || progress.message !== "handed over") {
        return unknown(`the server answered the message with ${clean(response)}`);
      }
      return accepted({ messageId: messageIdOf(effect), response: clean(response), found: null });
    } catch (error) {
      return judge(error, progress);
    }
  },

  reconcile: async (effect, context) => {
    const url = optionalSecret(context, "MAIL_IMAP_URL");
    if (url === null) return unknown("no mailbox to ask: MAIL_IMAP_URL is not set");
    const { host, port, secure, auth, tls } = serverAt(url, IMAP);
    const client = new ImapFlow({
      host,
      port,
      secure,
      ...(tls === "offered" ? {} : { doSTARTTLS: tls === "required" }),
      ...(auth ? { auth: { user: auth.user, pass: auth.pass } } : {}),
      logger: false,
      disableAutoIdle: true,
      disableCompression: true, // what is bounded are bytes that arrive
      maxLineLength: REPLY_BYTES_MAX,
      maxLiteralSize: MAILBOX_BYTES_MAX,
      maxResponseSize: MAILBOX_BYTES_MAX,
    });
    client.on("error", () => undefined); // the command under way rejects with it
    const close = (): void => client.close();
    context.signal.throwIfAborted();
    context.signal.addEventListener("abort", close, { once: true });
    try {
      await client.connect();
      return await search(client, effect);
    } finally {
      context.signal.removeEventListener("abort", close);
      client.close();
    }
  },
});

/** One SMTP transaction on a connection of its own; when it settles, or the signal comes, the socket is destroyed. */
async function hand(content: Buffer, effect: Bound, server: Server, context: AdapterContext, progress: Progress) {
  const { signal } = context;
  signal.throwIfAborted();
  const leftMs = Math.max(1, context.deadline.getTime() - Date.now());
  const connection = new SMTPConnection({
    host: server.host,
    port: server.port,
    secure: server.secure,
    ignoreTLS: server.tls === "never",
    requireTLS: server.tls === "required",
    connectionTimeout: leftMs,
    greetingTimeout: leftMs,
    socketTimeout: leftMs,
    socketCloseTimeout: 0, // destroy: a reply that comes late must find no socket
    maxResponseSize: REPLY_BYTES_MAX,
    logger: false,
  });
  // nodemailer reads the message only once the server has asked for it (354).
  const message = Readable.from(
    (function* () {
      progress.message = "begun";
      yield content;
      progress.message = "handed over";
    })(),
  );
  const done = Promise.withResolvers<string>();
  const abort = (): void => done.reject(signal.reason);
  const step = (next: () => void) => (error?: Error | null) => (error ? done.reject(error) : next());
  const send = (): void => {
    progress.stage = "envelope";
    const envelope = { from: effect.payload.from, to: [effect.payload.to], size: content.length };
    connection.send(envelope, message, (error, info) => {
      if (error || !info) done.reject(error);
      else done.resolve(info.response);
    });
  };
  signal.addEventListener("abort", abort, { once: true });
  connection.on("error", done.reject);
  connection.connect(
    step(() => {
      if (!server.auth) return send();
      progress.stage = "login";
      connection.login({ credentials: server.auth }, step(send));
    }),
  );
  try {
    return await done.promise;
  } finally {
    signal.removeEventListener("abort", abort);
    connection.close();
  }
}

/** Before the message left every failure is certain. After it only the server's own refusal of the message is. */
function judge(error: unknown, progress: Progress): DispatchReport<Proof> {
  const { code, responseCode, response } = error as { code?: string; responseCode?: number; response?: string };
  const reply = typeof responseCode === "number" && responseCode >= 400 ? responseCode : null;
  const kept = progress.message === "kept";
  // 421 after the message is "closing down": it may be about the connection alone.
  if (reply !== null && (kept || (code === "EMESSAGE" && reply !== 421))) {
    const stage = kept ? progress.stage : "message";
    const evidence = { code: reply >= 500 ? "rejected" : "try_later", stage, response: clean(response ?? "") };
    return failed(evidence);
  }
  if (kept) return notSent({ stage: progress.stage, code: typeof code === "string" ? code : "ended by the signal" });
  throw error;
}

async function search(client: ImapFlow, effect: Bound): Promise<ReconcileReport<Proof>> {
  const messageId = messageIdOf(effect);
  const opened = await client.mailboxOpen(effect.payload.mailbox, { readOnly: true });
  const uids = await client.search({ header: { "message-id": messageId } }, { uid: true });
  if (!Array.isArray(uids)) throw new LedgerError("lookup_failed", "the mailbox did not answer the search");
  const where = `${opened.path} UIDVALIDITY ${opened.uidValidity}`;
  if (uids.length === 0) return absent({ mailbox: where, matches: 0 });
  if (uids.length > 1) return unknown(`${uids.length} matches in ${where}: UID ${uids.slice(0, 10).join(", ")}`);
  const uid = String(uids[0]);
  const difference = await compare(client, uid, effect);
  if (difference !== null) return unknown(`the match differs from the binding in ${difference}: ${where} UID ${uid}`);
  return accepted({ messageId, response: null, found: `${where} UID ${uid}` });
}

/** In what the mail is not the bound one, or null. */
async function compare(client: ImapFlow, uid: string, effect: Bound): Promise<string | null> {
  const mail = effect.payload;
  const fetched = await client.fetchOne(uid, { envelope: true }, { uid: true });
  if (!fetched || fetched.envelope === undefined)
    throw new LedgerError("lookup_failed", "the mailbox did not give the match");
  const { messageId, subject, from, to } = fetched.envelope;
  const addresses = (list: typeof to) => (list ?? []).map((one) => one.address?.toLowerCase()).join();
  if (messageId !== messageIdOf(effect)) return "Message-ID"; // IMAP searches for parts of a header
  if (subject !== mail.subject) return "subject";
  if (addresses(from) !== mail.from.toLowerCase()) return "from";
  if (addresses(to) !== mail.to.toLowerCase()) return "to";
  const text = await client.download(uid, "1", { uid: true, maxBytes: REPLY_BYTES_MAX });
  if (!text.content) return "text";
  const found = Buffer.concat(await Array.fromAsync(text.content as AsyncIterable<Buffer>)).toString("utf8");
  return words(found) === words(mail.text) ? null : "text"; // servers may fold lines
}

function compose({ key, payload }: Bound): Promise<Buffer> {
  const { from, to, subject, text } = payload;
  return new MailComposer({
    from,
    to,
    subject,
    text,
    messageId: messageIdOf({ key, payload }),
    textEncoding: "quoted-printable",
    disableFileAccess: true,
    disableUrlAccess: true,
  })
    .compile()
    .build();
}

/** The right-hand side is the sender's own domain, as the Message-ID's rules want. */
function messageIdOf({ key, payload }: Pick<Bound, "key" | "payload">): string {
  return `<${key}@${payload.from.slice(payload.from.lastIndexOf("@") + 1)}>`;
}

interface Server {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
  readonly tls: "offered" | "required" | "never";
  readonly auth: { readonly user: string; readonly pass: string } | null;
  /** Who acts where, without the password. */
  readonly account: string;
}
const SMTP = { plain: "smtp:", secure: "smtps:", ports: [587, 465] } as const;
const IMAP = { plain: "imap:", secure: "imaps:", ports: [143, 993] } as const;

/**
 * `smtp://user:password@host:port`; `smtps:` and `imaps:` speak TLS at once. Otherwise STARTTLS is used where it is offered,
 * unless `?tls=required` or `?tls=never` follows.
 * @throws LedgerError `server_invalid`, without the URL, which holds a password.
 */
function serverAt(url: string, kind: typeof SMTP | typeof IMAP): Server {
  const parsed = URL.parse(url);
  const tls = parsed?.searchParams.get("tls") ?? "offered";
  const known = parsed && (parsed.protocol === kind.plain || parsed.protocol === kind.secure) && parsed.hostname !== "";
  if (!known || (tls !== "offered" && tls !== "required" && tls !== "never")) {
    throw new LedgerError("server_invalid", `the URL of the ${kind.plain.slice(0, 4)} server is not usable`, {
      hint: `give ${kind.plain}//user:password@host:port, with ?tls=required or ?tls=never at will`,
    });
  }
  const secure = parsed.protocol === kind.secure;
  const port = Number(parsed.port) || kind.ports[secure ? 1 : 0];
  const host = parsed.hostname.replace(/^\[|\]$/g, "");
  const user = decodeURIComponent(parsed.username);
  const auth = user === "" ? null : { user, pass: decodeURIComponent(parsed.password) };
  return { host, port, secure, tls, auth, account: `${user === "" ? "" : `${user} at `}${host}:${port}` };
}

function optionalSecret(context: AdapterContext, name: string): string | null {
  try {
    return context.secret(name);
  } catch (error) {
    if (error instanceof LedgerError && error.code === "secret_missing") return null;
    throw error;
  }
}

function words(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** A server's line as inert text, at most 300 characters. */
function clean(text: string): string {
  return text
    .replace(/\p{Cc}+/gu, " ")
    .trim()
    .slice(0, 300)
    .toWellFormed();
}
