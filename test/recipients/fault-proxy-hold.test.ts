import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { contains } from "../../src/demo/recipients/fault-rule.ts";
import { waitFor } from "../harness/wait.ts";
import { startConversation, webhookBehindProxy } from "./behind-proxy.ts";
import { connectPlain, fetchErrorCode, RESET } from "./support.ts";

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
    await waitFor("the late request", () => webhook.hits === 1);
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
    await waitFor("the answer to one", () => client.received().endsWith("ok one\n"));
    assert.equal(proxy.remainingFaults, 1);
    client.socket.write("two\n");
    await second.reached;
    assert.deepEqual(lines, ["one"]);
    second.release();
    await waitFor("the answer to two", () => client.received().endsWith("ok two\n"));
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
    await waitFor("the request", () => lines.length === 1);
    assert.equal(proxy.remainingFaults, 1);
    hold.release();
    await waitFor("the answer", () => client.received() === "hello\nok one\n");
    await assert.rejects(hold.reached, { code: "fault_not_reached" });
  });
});
