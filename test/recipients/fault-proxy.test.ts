import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { after, describe, test } from "node:test";
import { type FaultProxy, startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { type Listener, listenOnLoopback } from "../../src/demo/recipients/loopback.ts";
import { startWebhookReceiver } from "../../src/demo/recipients/webhook.ts";
import { resetAfterReading, respond } from "../../src/demo/recipients/webhook-answers.ts";
import { connectPlain, eventually, fetchErrorCode, keepAliveClient, RESET } from "./support.ts";

const started: { stop(): Promise<void> }[] = [];
after(() => Promise.all(started.map((each) => each.stop())));

async function webhookBehindProxy() {
  const webhook = await startWebhookReceiver();
  const proxy = await startFaultProxy({ target: webhook });
  started.push(webhook, proxy);
  const url = `http://127.0.0.1:${proxy.port}/hook`;
  const post = (body = "{}", signal?: AbortSignal) => fetch(url, { method: "POST", body, signal: signal ?? null });
  return { webhook, proxy, url, post };
}

interface Conversation extends Listener {
  /** The lines that arrived whole. */
  readonly lines: readonly string[];
  /** How each connection ended, as the recipient saw it. */
  readonly ends: readonly string[];
  readonly sockets: readonly Socket[];
}

/** A recipient that greets and answers each line with `ok LINE`, as SMTP and Postgres converse. */
async function startConversation(): Promise<Conversation & { proxy: FaultProxy }> {
  const lines: string[] = [];
  const ends: string[] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    let rest = "";
    socket.write("hello\n");
    socket.on("data", (chunk) => {
      const parts = `${rest}${chunk.toString("latin1")}`.split("\n");
      rest = parts.pop() ?? "";
      for (const line of parts) {
        lines.push(line);
        socket.write(`ok ${line}\n`);
      }
    });
    socket.once("end", () => ends.push("end"));
    socket.once("error", (error: NodeJS.ErrnoException) => ends.push(error.code ?? error.message));
  });
  const listener = await listenOnLoopback(server);
  const proxy = await startFaultProxy({ target: listener });
  started.push(listener, proxy);
  return { ...listener, lines, ends, sockets, proxy };
}

describe("without a fault", () => {
  test("bytes pass unchanged, and a kept-alive connection is one connection", async () => {
    const { webhook, proxy, url } = await webhookBehindProxy();
    const client = keepAliveClient(url);
    const body = "x".repeat(300_000);
    webhook.answerWith(respond(200, body));
    for (let round = 0; round < 3; round += 1) assert.equal(await client.post(body), body);
    client.close();
    assert.deepEqual(
      webhook.requests.map((request) => request.body.toString()),
      [body, body, body],
    );
    assert.equal(proxy.connections, 1);
    assert.equal(proxy.remainingFaults, 0);
  });

  test("a recipient's reset reaches the client as a reset", async () => {
    const { webhook, post } = await webhookBehindProxy();
    webhook.answerWith(resetAfterReading());
    assert.equal(await fetchErrorCode(post()), RESET);
    assert.equal(webhook.hits, 1);
  });

  test("a client's orderly end and its reset reach the recipient as what they were", async () => {
    const { ends, proxy, lines } = await startConversation();
    const orderly = await connectPlain(proxy.port);
    orderly.socket.end("one\n");
    await eventually("an orderly end", () => ends.length === 1);
    const broken = await connectPlain(proxy.port);
    broken.socket.write("two\n", () => broken.socket.resetAndDestroy());
    await eventually("a reset", () => ends.length === 2);
    assert.deepEqual(ends, ["end", RESET]);
    assert.equal(lines[0], "one");
  });

  test("a recipient that is not there shows as a reset", async () => {
    const { webhook, post } = await webhookBehindProxy();
    await webhook.stop();
    assert.equal(await fetchErrorCode(post()), RESET);
  });
});

describe("cut", () => {
  test("before the request: the client has an error, the recipient saw nothing, the next request passes", async () => {
    const { webhook, proxy, post } = await webhookBehindProxy();
    const fault = proxy.cutBeforeRequest();
    assert.equal(proxy.remainingFaults, 1);
    assert.equal(await fetchErrorCode(post()), RESET);
    await fault.reached;
    assert.equal(webhook.hits, 0);
    assert.equal(proxy.remainingFaults, 0);
    assert.equal((await post()).status, 200);
    assert.equal(webhook.hits, 1);
  });

  test("before a later request on a kept-alive connection, chosen by its bytes", async () => {
    const { webhook, proxy, url } = await webhookBehindProxy();
    const client = keepAliveClient(url);
    proxy.cutBeforeRequest({ match: contains('"order":2') });
    assert.equal(await client.post('{"order":1}'), '{"ok":true}');
    assert.equal(proxy.remainingFaults, 1);
    // Should head and body travel in two pieces, the head alone passes: still no request.
    await assert.rejects(client.post('{"order":2}'), { code: RESET });
    assert.equal(proxy.connections, 1);
    assert.equal(webhook.hits, 1);
    assert.equal(proxy.remainingFaults, 0);
  });

  test("the reply: the client has an error and the recipient one request", async () => {
    const { webhook, proxy, post } = await webhookBehindProxy();
    const fault = proxy.cutReply();
    assert.equal(await fetchErrorCode(post()), RESET);
    await fault.reached;
    assert.equal(webhook.hits, 1);
  });

  test("the reply after its last bytes: awaited whole, and nothing of it reaches the client", async () => {
    const { webhook, proxy } = await webhookBehindProxy();
    webhook.answerWith(respond(200, `${"x".repeat(500_000)}THE END`));
    let seen = 0;
    proxy.cutReply({
      after: (reply) => {
        seen = reply.length;
        return reply.subarray(-7).toString() === "THE END";
      },
    });
    const client = await connectPlain(proxy.port);
    client.socket.write("POST / HTTP/1.1\r\nHost: loopback\r\nContent-Length: 2\r\n\r\n{}");
    assert.equal(await client.ended, RESET);
    assert.equal(client.received(), "");
    assert.ok(seen > 500_000);
    assert.equal(webhook.hits, 1);
  });

  test("a statement in a conversation: what went before has passed, the statement has not", async () => {
    const { proxy, lines, ends } = await startConversation();
    proxy.cutBeforeRequest({ match: contains("COMMIT") });
    const client = await connectPlain(proxy.port);
    client.socket.write("BEGIN\n");
    await eventually("the answer to BEGIN", () => client.received().endsWith("ok BEGIN\n"));
    client.socket.write("COMMIT\n");
    assert.equal(await client.ended, RESET);
    await eventually("the recipient's end", () => ends.length === 1);
    assert.deepEqual(lines, ["BEGIN"]);
    assert.deepEqual(ends, [RESET]);
  });

  test("a statement's reply: carried out, not answered, and the recipient sees an orderly end", async () => {
    const { proxy, lines, ends } = await startConversation();
    proxy.cutReply({ to: contains("COMMIT") });
    const client = await connectPlain(proxy.port);
    client.socket.write("BEGIN\n");
    await eventually("the answer to BEGIN", () => client.received().endsWith("ok BEGIN\n"));
    client.socket.write("COMMIT\n");
    assert.equal(await client.ended, RESET);
    await eventually("the recipient's end", () => ends.length === 1);
    assert.deepEqual(lines, ["BEGIN", "COMMIT"]);
    assert.deepEqual(ends, ["end"]);
    assert.equal(client.received(), "hello\nok BEGIN\n");
  });

  test("when the recipient says something, whatever it answers", async () => {
    const { proxy, lines } = await startConversation();
    proxy.cutWhenRecipientSays(contains(/ok two/));
    const client = await connectPlain(proxy.port);
    client.socket.write("one\n");
    await eventually("the answer to one", () => client.received().endsWith("ok one\n"));
    client.socket.write("two\n");
    assert.equal(await client.ended, RESET);
    assert.deepEqual(lines, ["one", "two"]);
    assert.equal(client.received(), "hello\nok one\n");
  });

  test("a match that arrives in pieces is seen, and a fault is used once", async () => {
    const { proxy, lines, sockets } = await startConversation();
    proxy.cutBeforeRequest({ match: contains("COMMIT") });
    const client = await connectPlain(proxy.port);
    await eventually("the greeting", () => client.received() === "hello\n");
    client.socket.write("COM");
    await eventually("the first piece", () => (sockets[0]?.bytesRead ?? 0) === 3);
    client.socket.write("MIT\n");
    assert.equal(await client.ended, RESET);
    assert.deepEqual(lines, []);
    const again = await connectPlain(proxy.port);
    again.socket.end("COMMIT\n");
    await again.ended;
    assert.deepEqual(lines, ["COMMIT"]);
  });
});

describe("hold", () => {
  test("the reply: the recipient has the request while the client waits, until it is released", async () => {
    const { webhook, proxy, post } = await webhookBehindProxy();
    const hold = proxy.holdReply();
    let answered = false;
    const response = post().then((answer) => {
      answered = true;
      return answer.status;
    });
    await hold.reached;
    assert.equal(webhook.hits, 1);
    assert.equal(answered, false);
    hold.release();
    assert.equal(await response, 200);
    hold.release(); // changes nothing
    assert.equal((await post()).status, 200);
  });

  test("the reply, dropped: the client has an error and the recipient one request", async () => {
    const { webhook, proxy, post } = await webhookBehindProxy();
    const hold = proxy.holdReply();
    const code = fetchErrorCode(post());
    await hold.reached;
    hold.drop();
    assert.equal(await code, RESET);
    assert.equal(webhook.hits, 1);
    assert.throws(() => hold.drop(), { code: "fault_not_held" });
  });

  test("the request: unknown to the recipient until it is released", async () => {
    const { webhook, proxy, post } = await webhookBehindProxy();
    const hold = proxy.holdRequest();
    const response = post();
    await hold.reached;
    assert.equal(webhook.hits, 0);
    hold.release();
    assert.equal((await response).status, 200);
    assert.equal(webhook.hits, 1);
  });

  test("the request, dropped: the recipient never sees it", async () => {
    const { webhook, proxy, post } = await webhookBehindProxy();
    const hold = proxy.holdRequest();
    const code = fetchErrorCode(post());
    await hold.reached;
    hold.drop();
    assert.equal(await code, RESET);
    assert.equal((await post()).status, 200);
    assert.equal(webhook.hits, 1);
  });

  test("the request of a client that has given up still arrives when it is released: a late request", async () => {
    const { webhook, proxy, post } = await webhookBehindProxy();
    const hold = proxy.holdRequest();
    const abort = new AbortController();
    const response = post('{"late":true}', abort.signal);
    await hold.reached;
    abort.abort();
    await assert.rejects(response, { name: "AbortError" });
    assert.equal(webhook.hits, 0);
    hold.release();
    await eventually("the late request", () => webhook.hits === 1);
    assert.equal(webhook.requests[0]?.body.toString(), '{"late":true}');
  });

  test("a request that arrives in pieces is one request: two holds hold two requests", async () => {
    const { proxy, lines } = await startConversation();
    const first = proxy.holdRequest();
    const second = proxy.holdRequest();
    const client = await connectPlain(proxy.port);
    client.socket.write("on");
    await first.reached;
    first.release();
    client.socket.write("e\n");
    await eventually("the answer to one", () => client.received().endsWith("ok one\n"));
    assert.equal(proxy.remainingFaults, 1);
    client.socket.write("two\n");
    await second.reached;
    assert.deepEqual(lines, ["one"]);
    second.release();
    await eventually("the answer to two", () => client.received().endsWith("ok two\n"));
  });

  test("bytes behind held bytes stay in order", async () => {
    const { proxy, lines } = await startConversation();
    const hold = proxy.holdRequest({ match: contains("one") });
    const client = await connectPlain(proxy.port);
    client.socket.write("one\n");
    await hold.reached;
    client.socket.end("two\nthree\n");
    // Another conversation passes meanwhile: by then the proxy has had the bytes of the first.
    const other = await connectPlain(proxy.port);
    other.socket.end("other\n");
    await other.ended;
    assert.deepEqual(lines, ["other"]);
    hold.release();
    assert.equal(await client.ended, "closed");
    assert.equal(client.received(), "hello\nok one\nok two\nok three\n");
  });

  test("released before it is reached, a fault is disarmed and says so", async () => {
    const { webhook, proxy, post } = await webhookBehindProxy();
    const hold = proxy.holdReply();
    hold.release();
    assert.equal(proxy.remainingFaults, 0);
    await assert.rejects(hold.reached, { code: "fault_not_reached" });
    assert.equal((await post()).status, 200);
    assert.equal(webhook.hits, 1);
  });

  test("released while the reply is awaited, what was withheld passes", async () => {
    const { proxy, lines } = await startConversation();
    const hold = proxy.holdReply({ to: contains("one"), after: contains("never said") });
    const client = await connectPlain(proxy.port);
    client.socket.write("one\n");
    await eventually("the request", () => lines.length === 1);
    assert.equal(proxy.remainingFaults, 1);
    hold.release();
    await eventually("the answer", () => client.received() === "hello\nok one\n");
    await assert.rejects(hold.reached, { code: "fault_not_reached" });
  });
});

test("a rule that only passes tells when the bytes went by, and leaves them to other faults", async () => {
  const { webhook, proxy, post } = await webhookBehindProxy();
  const sent = proxy.arm({ at: { direction: "to-recipient", match: contains("POST /hook") }, action: "pass" });
  proxy.cutReply();
  assert.equal(await fetchErrorCode(post()), RESET);
  await sent.reached;
  assert.equal(webhook.hits, 1);
  assert.equal(proxy.remainingFaults, 0);
});

test("a stopped proxy closes every socket at once and rejects what was not reached", async () => {
  const { proxy, sockets } = await startConversation();
  const hold = proxy.holdReply({ to: contains("never said") });
  const client = await connectPlain(proxy.port);
  await eventually("the greeting", () => client.received() === "hello\n");
  const recipientClosed = once(sockets[0] as Socket, "close");
  await proxy.stop();
  await proxy.stop();
  await client.ended;
  await recipientClosed;
  await assert.rejects(hold.reached, { code: "fault_not_reached" });
});
