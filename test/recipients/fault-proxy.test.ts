import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { describe, test } from "node:test";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { resetAfterReading, respond } from "../../src/demo/recipients/webhook-answers.ts";
import { waitFor } from "../harness/wait.ts";
import { startConversation, webhookBehindProxy } from "./behind-proxy.ts";
import { connectPlain, fetchErrorCode, keepAliveClient, RESET } from "./support.ts";

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
    await waitFor("an orderly end", () => ends.length === 1);
    const broken = await connectPlain(proxy.port);
    broken.socket.write("two\n", () => broken.socket.resetAndDestroy());
    await waitFor("a reset", () => ends.length === 2);
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
    await waitFor("the answer to BEGIN", () => client.received().endsWith("ok BEGIN\n"));
    client.socket.write("COMMIT\n");
    assert.equal(await client.ended, RESET);
    await waitFor("the recipient's end", () => ends.length === 1);
    assert.deepEqual(lines, ["BEGIN"]);
    assert.deepEqual(ends, [RESET]);
  });

  test("a statement's reply: carried out, not answered, and the recipient sees an orderly end", async () => {
    const { proxy, lines, ends } = await startConversation();
    proxy.cutReply({ to: contains("COMMIT") });
    const client = await connectPlain(proxy.port);
    client.socket.write("BEGIN\n");
    await waitFor("the answer to BEGIN", () => client.received().endsWith("ok BEGIN\n"));
    client.socket.write("COMMIT\n");
    assert.equal(await client.ended, RESET);
    await waitFor("the recipient's end", () => ends.length === 1);
    assert.deepEqual(lines, ["BEGIN", "COMMIT"]);
    assert.deepEqual(ends, ["end"]);
    assert.equal(client.received(), "hello\nok BEGIN\n");
  });

  test("when the recipient says something, whatever it answers", async () => {
    const { proxy, lines } = await startConversation();
    proxy.cutWhenRecipientSays(contains(/ok two/));
    const client = await connectPlain(proxy.port);
    client.socket.write("one\n");
    await waitFor("the answer to one", () => client.received().endsWith("ok one\n"));
    client.socket.write("two\n");
    assert.equal(await client.ended, RESET);
    assert.deepEqual(lines, ["one", "two"]);
    assert.equal(client.received(), "hello\nok one\n");
  });

  test("a match that arrives in pieces is seen, and a fault is used once", async () => {
    const { proxy, lines, sockets } = await startConversation();
    proxy.cutBeforeRequest({ match: contains("COMMIT") });
    const client = await connectPlain(proxy.port);
    await waitFor("the greeting", () => client.received() === "hello\n");
    client.socket.write("COM");
    await waitFor("the first piece", () => (sockets[0]?.bytesRead ?? 0) === 3);
    client.socket.write("MIT\n");
    assert.equal(await client.ended, RESET);
    assert.deepEqual(lines, []);
    const again = await connectPlain(proxy.port);
    again.socket.end("COMMIT\n");
    await again.ended;
    assert.deepEqual(lines, ["COMMIT"]);
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
  await waitFor("the greeting", () => client.received() === "hello\n");
  const recipientClosed = once(sockets[0] as Socket, "close");
  await proxy.stop();
  await proxy.stop();
  await client.ended;
  await recipientClosed;
  await assert.rejects(hold.reached, { code: "fault_not_reached" });
});
