import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { createTransport } from "nodemailer";
import { startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { type MailSinkOptions, startMailSink } from "../../src/demo/recipients/mail-sink.ts";
import { waitFor } from "../harness/wait.ts";
import { connectPlain } from "./support.ts";

const END_OF_MAIL = contains("\r\n.\r\n");
const MESSAGE_ID = "<0123456789abcdef@example.test>";

const started: { stop(): Promise<void> }[] = [];
after(() => Promise.all(started.map((each) => each.stop())));

async function startSink(options: MailSinkOptions = {}) {
  const sink = await startMailSink(options);
  const proxy = await startFaultProxy({ target: sink });
  started.push(sink, proxy);
  const send = (to = "customer@example.test", port = proxy.port) =>
    createTransport({ host: "127.0.0.1", port, secure: false }).sendMail({
      from: "shop@example.test",
      to,
      subject: "Receipt",
      messageId: MESSAGE_ID,
      text: "Message-ID: <quoted@example.test>\n.\nThank you.",
    });
  return { sink, proxy, send };
}

test("a mail is kept with its envelope, Message-ID and bytes, and the 250 names its queue id", async () => {
  const { sink, send } = await startSink();
  const sent = await send("one@example.test, two@example.test");
  assert.equal(sink.accepted, 1);
  const [mail] = sink.messages;
  assert.deepEqual([mail?.from, mail?.to], ["shop@example.test", ["one@example.test", "two@example.test"]]);
  assert.equal(mail?.messageId, MESSAGE_ID);
  assert.equal(sent.response, `250 OK: queued as ${mail?.queueId}`);
  assert.match(mail?.raw.toString() ?? "", /\r\nSubject: Receipt\r\n[\s\S]*\r\n\r\n.*\r\n\.\r\nThank you\./);
});

test("the same Message-ID twice is two mails", async () => {
  const { sink, send } = await startSink();
  await send();
  await send();
  assert.equal(sink.messagesWith(MESSAGE_ID).length, 2);
  assert.notEqual(sink.messages[0]?.queueId, sink.messages[1]?.queueId);
  assert.equal(sink.messagesWith("<quoted@example.test>").length, 0);
});

test("a recipient outside example.test is refused, and nothing is accepted", async () => {
  const { sink, send } = await startSink();
  await assert.rejects(send("customer@example.invalid"), { responseCode: 550 });
  assert.equal(sink.accepted, 0);
});

describe("the 250", () => {
  test("is held: the mail is accepted while its sender waits", async () => {
    const { sink, send } = await startSink();
    const hold = sink.holdAnswers();
    let answered = false;
    const sending = send().then((sent) => {
      answered = true;
      return sent.response;
    });
    await hold.reached;
    assert.equal(sink.accepted, 1);
    assert.equal(answered, false);
    hold.release();
    assert.match(await sending, /^250 OK: queued as /);
  });

  test("is held past the sender's patience: one mail, before and after the late 250", async () => {
    const { sink } = await startSink();
    const hold = sink.holdAnswers();
    const impatient = createTransport({ host: sink.host, port: sink.port, socketTimeout: 500 });
    await assert.rejects(impatient.sendMail({ from: "shop@example.test", to: "customer@example.test", text: "x" }), {
      code: "ETIMEDOUT",
    });
    await hold.reached;
    assert.equal(sink.accepted, 1);
    hold.release();
    await impatient.sendMail({ from: "shop@example.test", to: "customer@example.test", text: "y" });
    assert.equal(sink.accepted, 2);
  });

  test("is delayed as long as was asked, after custody", async () => {
    const { sink, send } = await startSink({ acceptanceDelayMs: 200 });
    const sending = send();
    await waitFor("custody", () => sink.accepted === 1);
    const custody = performance.now();
    await sending;
    assert.ok(performance.now() - custody > 150);
    await assert.rejects(startMailSink({ acceptanceDelayMs: Number.NaN }), { code: "delay_invalid" });
  });
});

describe("on the wire", () => {
  test("a reply to the mail that is cut leaves the client with an error and the recipient with one mail", async () => {
    const { sink, proxy, send } = await startSink();
    const fault = proxy.cutReply({ to: END_OF_MAIL });
    await assert.rejects(send(), { code: "ESOCKET" });
    await fault.reached;
    assert.equal(sink.accepted, 1);
    assert.equal(proxy.remainingFaults, 0);
  });

  test("the same by what the recipient says", async () => {
    const { sink, proxy, send } = await startSink();
    proxy.cutWhenRecipientSays(contains(/^250 .*queued as/));
    await assert.rejects(send(), { code: "ESOCKET" });
    assert.equal(sink.accepted, 1);
  });

  test("a mail that is cut before its end leaves the client with the same error and the recipient with none", async () => {
    const { sink, proxy, send } = await startSink();
    const fault = proxy.cutBeforeRequest({ match: END_OF_MAIL });
    await assert.rejects(send(), { code: "ESOCKET" });
    await fault.reached;
    await waitFor("the break", () => sink.brokenConnections === 1);
    assert.equal(sink.accepted, 0);
    await send();
    assert.equal(sink.accepted, 1);
  });

  test("a reply that is held comes when it is released", async () => {
    const { sink, proxy, send } = await startSink();
    const hold = proxy.holdReply({ to: END_OF_MAIL });
    const sending = send();
    await hold.reached;
    assert.equal(sink.accepted, 1);
    hold.release();
    assert.match((await sending).response, /^250 /);
  });
});

test("stop closes open conversations at once, also one whose 250 is held", async () => {
  const { sink, send } = await startSink();
  const idle = await connectPlain(sink.port);
  const hold = sink.holdAnswers();
  const sending = assert.rejects(send("customer@example.test", sink.port), { command: "CONN" });
  await hold.reached;
  await sink.stop();
  await sink.stop();
  await sending;
  await idle.ended;
});
