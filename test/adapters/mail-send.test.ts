/** tasks/mail_send.ts against npm smtp-server, a script of odd answers, and a real Postfix and Dovecot. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import nodemailer from "nodemailer";
import { type FaultProxy, startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { type MailSink, startMailSink } from "../../src/demo/recipients/mail-sink.ts";
import mailSend from "../../tasks/mail_send.ts";
import { waitFor } from "../harness/wait.ts";
import { describeConformance } from "./conformance.ts";
import { type AnyEffect, bind, dispatch, outcomeOf, prepare, reconcile, type Secrets } from "./context.ts";
import { type MailServer, mailServerMissing, startMailServer } from "./mail-server.ts";
import { type SmtpScript, startSmtpScript } from "./smtp-script.ts";

/** The end of a message on the wire. */
const FINAL_DOT = contains("\r\n.\r\n");
/** From custody to the mailbox; Postfix and Dovecot need a tenth of a second. */
const DELIVERY_MS_MAX = 10_000;

let sink: MailSink;
before(async () => {
  sink = await startMailSink();
});
after(() => sink.stop());

describeConformance("mail_send to an SMTP server without mailboxes", {
  operation: mailSend,
  secrets: sinkSecrets,
  looksUp: false,
  input: async () => mail(),
  changes: async (effect) => sink.messagesWith(messageIdOf(effect)).length,
  atSilence,
});

describe("custody", () => {
  test("is proved by the server's own line, and the mail carries the key", async () => {
    const effect = await bind(mailSend, mail(), { secrets: sinkSecrets() });
    const report = await dispatch(mailSend, effect, { secrets: sinkSecrets() });
    const [received] = sink.messagesWith(messageIdOf(effect));
    assert.ok(report.report === "accepted" && received);
    assert.match(report.proof.response ?? "", new RegExp(`^250 .*${received.queueId}`));
    assert.deepEqual([received.from, received.to], [effect.payload.from, [effect.payload.to]]);
  });

  test("that is told after the abort is nobody's reply: one mail, and nobody knows", async () => {
    const effect = await bind(mailSend, mail(), { secrets: sinkSecrets() });
    const answer = sink.holdAnswers();
    const abort = new AbortController();
    const outcome = outcomeOf(dispatch(mailSend, effect, { secrets: sinkSecrets(), signal: abort.signal }));
    await answer.reached;
    abort.abort();
    assert.equal(await outcome, "thrown");
    answer.release();
    assert.equal(sink.messagesWith(messageIdOf(effect)).length, 1);
    assert.partialDeepStrictEqual(await reconcile(mailSend, effect, { secrets: sinkSecrets() }), { report: "unknown" });
  });

  test("that is lost with the connection leaves one mail, and nobody knows", async (context) => {
    const proxy = await startFaultProxy({ target: sink });
    context.after(() => proxy.stop());
    const secrets = { MAIL_SMTP_URL: `smtp://127.0.0.1:${proxy.port}` };
    const effect = await bind(mailSend, mail(), { secrets });
    const cut = proxy.cutReply({ to: FINAL_DOT });
    assert.equal(await outcomeOf(dispatch(mailSend, effect, { secrets })), "thrown");
    await cut.reached;
    assert.deepEqual([sink.messagesWith(messageIdOf(effect)).length, proxy.connections], [1, 1]);
  });

  test("of a server that refuses the recipient is refused by name, with no mail", async () => {
    const effect = await bind(mailSend, { ...mail(), to: "a@elsewhere.test" }, { secrets: sinkSecrets() });
    const report = await dispatch(mailSend, effect, { secrets: sinkSecrets() });
    assert.partialDeepStrictEqual(report, { report: "failed", code: "rejected", evidence: { stage: "envelope" } });
    assert.equal(sink.messagesWith(messageIdOf(effect)).length, 0);
  });
});

describe("an answer at each step", () => {
  /** `messages`: how many reached the server whole. */
  const steps: [SmtpScript, string, { code?: string; messages: number }][] = [
    [{ greeting: "554 not you" }, "failed", { code: "rejected", messages: 0 }],
    [{ greeting: "421 busy" }, "failed", { code: "try_later", messages: 0 }],
    [{ greeting: "reset" }, "notSent", { messages: 0 }],
    [{ mail: "451 later" }, "failed", { code: "try_later", messages: 0 }],
    [{ mail: "reset" }, "notSent", { messages: 0 }],
    [{ rcpt: "550 nobody" }, "failed", { code: "rejected", messages: 0 }],
    [{ rcpt: "450 greylisted" }, "failed", { code: "try_later", messages: 0 }],
    [{ rcpt: "421 closing" }, "failed", { code: "try_later", messages: 0 }],
    [{ data: "554 no" }, "failed", { code: "rejected", messages: 0 }],
    [{ data: "reset" }, "notSent", { messages: 0 }],
    [{ message: "554 spam" }, "failed", { code: "rejected", messages: 1 }],
    [{ message: "451 later" }, "failed", { code: "try_later", messages: 1 }],
    [{ message: "421 closing" }, "thrown", { messages: 1 }],
    [{ message: "252 perhaps" }, "unknown", { messages: 1 }],
    [{ message: "nonsense" }, "thrown", { messages: 1 }],
    [{ message: "reset" }, "thrown", { messages: 1 }],
  ];
  for (const pipelining of [false, true]) {
    for (const [script, outcome, { code, messages }] of steps) {
      const name = `${JSON.stringify(script)}${pipelining ? " with PIPELINING" : ""}`;
      test(`${name} is ${code ?? outcome}`, async (context) => {
        const server = await startSmtpScript({ ...script, pipelining });
        context.after(() => server.stop());
        const secrets = { MAIL_SMTP_URL: server.url };
        const effect = await bind(mailSend, mail(), { secrets });
        const report = await dispatch(mailSend, effect, { secrets }).catch(() => ({ report: "thrown" }) as const);
        assert.equal(report.report, outcome, JSON.stringify(report));
        assert.equal(report.report === "failed" ? report.code : undefined, code);
        assert.ok(server.messages <= messages, "the message arrived where it must not have left");
      });
    }
  }
});

describe("what binds a mail", () => {
  test("is the account: a secret for another one sends nothing", async () => {
    const effect = await bind(mailSend, mail(), { secrets: sinkSecrets() });
    const secrets = { MAIL_SMTP_URL: `smtp://user:secret@127.0.0.1:${sink.port}` };
    assert.equal((await dispatch(mailSend, effect, { secrets })).report, "notSent");
    const other = await bind(mailSend, mail(), { secrets });
    assert.equal(other.account, `user at 127.0.0.1:${sink.port}`);
    assert.equal(sink.messagesWith(messageIdOf(effect)).length, 0);
  });

  test("is nothing where the secret is missing or unusable, and the secret is not told", async () => {
    await assert.rejects(async () => prepare(mailSend, mail()), { code: "secret_missing" });
    for (const url of ["http://u:hidden@h", "smtp://u:hidden@h?tls=perhaps", "hidden"]) {
      await assert.rejects(
        async () => prepare(mailSend, mail(), { secrets: { MAIL_SMTP_URL: url } }),
        (error: Error & { code?: string }) => error.code === "server_invalid" && !error.message.includes("hidden"),
      );
    }
  });

  test("is one line of subject and one address each", () => {
    const { input } = mailSend.definition;
    for (const part of [
      { subject: "a\r\nBcc: b@c.test" },
      { to: "a@b.test, c@d.test" },
      { from: "no address" },
      { cc: "x" },
    ]) {
      assert.equal(input.safeParse({ ...mail(), ...part }).success, false, JSON.stringify(part));
    }
  });

  test("a refused connection was sent nothing", async () => {
    const secrets = { MAIL_SMTP_URL: "smtp://127.0.0.1:1" };
    const report = await dispatch(mailSend, await bind(mailSend, mail(), { secrets }), { secrets });
    assert.deepEqual(report, { report: "notSent", evidence: { stage: "connect", code: "ESOCKET" } });
  });
});

describe("with Postfix and Dovecot", { skip: mailServerMissing() }, () => {
  let server: MailServer;
  let proxy: FaultProxy;
  before(async () => {
    server = await startMailServer();
    proxy = await startFaultProxy({ target: { host: "127.0.0.1", port: server.smtpPort } });
  });
  after(async () => {
    await proxy?.stop();
    await server?.stop();
  });

  const box = `box.${randomBytes(4).toString("hex")}@example.test`;
  const secrets = (): Secrets => ({
    MAIL_SMTP_URL: `smtp://127.0.0.1:${proxy.port}?tls=never`,
    MAIL_IMAP_URL: server.imapUrl(box),
  });
  const input = () => ({ ...mail(), to: box });
  const copies = async (effect: AnyEffect) =>
    (await server.mailsOf(box)).filter((raw) => raw.includes(messageIdOf(effect))).length;
  const delivered = async (effect: AnyEffect, count = 1) => {
    await waitFor("the mail arrives", async () => (await copies(effect)) >= count, { timeoutMs: DELIVERY_MS_MAX });
  };

  describeConformance("mail_send to Postfix", {
    operation: mailSend,
    secrets,
    looksUp: true,
    input: async () => input(),
    changes: copies,
    settled: (effect) => delivered(effect),
    atSilence,
  });

  test("a 250 that comes after the deadline: one mail, unresolved, then found by its Message-ID", async () => {
    const effect = await bind(mailSend, input(), { secrets: secrets() });
    const reply = proxy.holdReply({ to: FINAL_DOT });
    const abort = new AbortController();
    const outcome = outcomeOf(dispatch(mailSend, effect, { secrets: secrets(), signal: abort.signal }));
    await reply.reached;
    abort.abort();
    assert.equal(await outcome, "thrown");
    reply.release();
    await delivered(effect);
    const found = await reconcile(mailSend, effect, { secrets: secrets() });
    assert.ok(found.report === "accepted", JSON.stringify(found));
    assert.match(found.proof.found ?? "", /^INBOX UIDVALIDITY \d+ UID \d+$/);
    assert.equal(await copies(effect), 1);
  });

  test("two mails under one Message-ID are for a person to look at", async () => {
    const effect = await bind(mailSend, input(), { secrets: secrets() });
    for (let time = 0; time < 2; time += 1) await dispatch(mailSend, effect, { secrets: secrets() });
    await delivered(effect, 2);
    const found = await reconcile(mailSend, effect, { secrets: secrets() });
    assert.ok(found.report === "unknown" && found.reason.startsWith("2 matches"), JSON.stringify(found));
  });

  for (const [what, part] of Object.entries({
    subject: { subject: "Another subject" },
    text: { text: "Another text" },
    to: { to: "other@example.test" },
    from: { from: "mallory@example.test" },
  })) {
    test(`a mail under our Message-ID that differs in its ${what} is for a person to look at`, async () => {
      const effect = await bind(mailSend, input(), { secrets: secrets() });
      const { from, subject, text } = effect.payload;
      const transport = nodemailer.createTransport({ host: "127.0.0.1", port: server.smtpPort, ignoreTLS: true });
      const envelope = { from, to: [box] };
      await transport.sendMail({ from, to: box, subject, text, envelope, messageId: messageIdOf(effect), ...part });
      await delivered(effect);
      const found = await reconcile(mailSend, effect, { secrets: secrets() });
      assert.ok(found.report === "unknown" && found.reason.includes(what), JSON.stringify(found));
    });
  }

  test("a long mail in any script is recognised", async () => {
    const text = `Ærlig talt: 4 000 € – ${"ord og flere ord ".repeat(40)}\n\n.en linje med punktum\nFrom her til dit 🙂\n`;
    const asked = { ...input(), subject: "Kvittering 🧾 für Bestellung № 42", text };
    const effect = await bind(mailSend, asked, { secrets: secrets() });
    assert.equal((await dispatch(mailSend, effect, { secrets: secrets() })).report, "accepted");
    await delivered(effect);
    const found = await reconcile(mailSend, effect, { secrets: secrets() });
    assert.equal(found.report, "accepted", JSON.stringify(found));
  });

  test("a mailbox that cannot be asked is no answer", async () => {
    const effect = await bind(mailSend, input(), { secrets: secrets() });
    const wrong = server.imapUrl(box).replace(":pw@", ":wrong@");
    const refused = { ...secrets(), MAIL_IMAP_URL: wrong };
    await assert.rejects(reconcile(mailSend, effect, { secrets: refused }));
    const elsewhere = { ...effect, payload: { ...effect.payload, mailbox: "Nowhere" } };
    await assert.rejects(reconcile(mailSend, elsewhere, { secrets: secrets() }));
    const closed = { ...secrets(), MAIL_IMAP_URL: "imap://a:b@127.0.0.1:1" };
    await assert.rejects(reconcile(mailSend, effect, { secrets: closed }));
  });
});

function mail() {
  const subject = `Receipt ${randomBytes(4).toString("hex")}`;
  return { to: "customer@example.test", from: "shop@example.test", subject, text: "Thank you for order 42.\n" };
}

function messageIdOf(effect: AnyEffect): string {
  return `<${effect.key}@example.test>`;
}

function sinkSecrets(): Secrets {
  return { MAIL_SMTP_URL: `smtp://127.0.0.1:${sink.port}` };
}

function atSilence(effect: AnyEffect, port: number): { effect: AnyEffect; secrets: Secrets } {
  return {
    effect: { ...effect, account: `127.0.0.1:${port}` },
    secrets: { MAIL_SMTP_URL: `smtp://127.0.0.1:${port}` },
  };
}
