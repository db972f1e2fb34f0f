import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { startWebhookReceiver } from "../../src/demo/recipients/webhook.ts";
import {
  cutInsideCharacter,
  neverAnswer,
  redirect,
  resetAfterReading,
  respond,
  respondHtml,
  respondJson,
  respondWithHalfCharacter,
  respondWithNul,
} from "../../src/demo/recipients/webhook-answers.ts";
import { connectPlain, fetchErrorCode, RESET } from "./support.ts";

const started: { stop(): Promise<void> }[] = [];
after(() => Promise.all(started.map((each) => each.stop())));

async function startReceiver() {
  const webhook = await startWebhookReceiver();
  started.push(webhook);
  const post = (init: RequestInit = {}) => fetch(`${webhook.url}/hook?a=1`, { method: "POST", body: "{}", ...init });
  return { webhook, post };
}

test("a request is recorded as it came", async () => {
  const { webhook, post } = await startReceiver();
  const response = await post({ headers: { "X-Effect": "abc" }, body: "caf\u00e9" });
  assert.deepEqual([response.status, await response.json()], [200, { ok: true }]);
  const [request] = webhook.requests;
  assert.equal(webhook.hits, 1);
  assert.deepEqual([request?.method, request?.path, request?.headers["x-effect"]], ["POST", "/hook?a=1", "abc"]);
  assert.equal(request?.body.toString(), "caf\u00e9");
});

test("answers are given in turn, and the last one repeats", async () => {
  const { webhook, post } = await startReceiver();
  webhook.answerWith(respond(404), respond(404), respondJson(200, { found: true }));
  const statuses: number[] = [];
  for (let round = 0; round < 4; round += 1) statuses.push((await post()).status);
  assert.deepEqual(statuses, [404, 404, 200, 200]);
  assert.equal(webhook.hits, 4);
  assert.throws(() => webhook.answerWith(), { code: "answers_missing" });
});

describe("answers that are no proof", () => {
  test("202, an empty 200, HTML, and 200 that says no", async () => {
    const { webhook, post } = await startReceiver();
    webhook.answerWith(respond(202), respond(200), respondHtml(), respondJson(200, { ok: false }));
    assert.equal((await post()).status, 202);
    assert.equal(await (await post()).text(), "");
    assert.match(await (await post()).text(), /^<!doctype html>/);
    assert.deepEqual(await (await post()).json(), { ok: false });
  });

  for (const status of [301, 302, 307, 308] as const) {
    test(`${status} leads a client that follows it to another listener`, async () => {
      const { webhook, post } = await startReceiver();
      const other = await startReceiver();
      webhook.answerWith(redirect(status, `${other.webhook.url}/elsewhere`));
      const unfollowed = await post({ redirect: "manual" });
      assert.deepEqual(
        [unfollowed.status, unfollowed.headers.get("Location")],
        [status, `${other.webhook.url}/elsewhere`],
      );
      assert.equal(other.webhook.hits, 0);
      assert.equal((await post()).status, 200);
      // 301 and 302 turn a POST into a GET, 307 and 308 send the effect a second time.
      assert.equal(other.webhook.requests[0]?.method, status < 307 ? "GET" : "POST");
    });
  }
});

describe("answers that break careless clients", () => {
  test("U+0000 in the body", async () => {
    const { webhook, post } = await startReceiver();
    webhook.answerWith(respondWithNul());
    const response = await post();
    assert.deepEqual([response.status, await response.text()], [500, "internal\u0000error"]);
  });

  test("a complete body that ends in half a character", async () => {
    const { webhook, post } = await startReceiver();
    webhook.answerWith(respondWithHalfCharacter());
    const bytes = Buffer.from(await (await post()).arrayBuffer());
    assert.throws(() => new TextDecoder("utf-8", { fatal: true }).decode(bytes), {
      code: "ERR_ENCODING_INVALID_ENCODED_DATA",
    });
    assert.equal(bytes.subarray(0, -2).toString(), "internal error ");
  });

  test("a connection reset in the middle of a character, after the head", async () => {
    const { webhook, post } = await startReceiver();
    webhook.answerWith(cutInsideCharacter());
    const client = await connectPlain(webhook.port);
    client.socket.write("POST / HTTP/1.1\r\nHost: loopback\r\nContent-Length: 2\r\n\r\n{}");
    assert.equal(await client.ended, RESET);
    assert.ok(client.received().startsWith("HTTP/1.1 200 OK\r\n"));
    assert.ok(client.received().endsWith("accepted \u00f0\u009f"));
    assert.equal(await fetchErrorCode(post()), RESET);
    assert.equal(webhook.hits, 2);
  });

  test("the request is read, then the connection is reset: one hit", async () => {
    const { webhook, post } = await startReceiver();
    webhook.answerWith(resetAfterReading());
    assert.equal(await fetchErrorCode(post()), RESET);
    assert.equal(webhook.hits, 1);
  });

  test("the request is read, and nothing is ever said", async () => {
    const { webhook, post } = await startReceiver();
    webhook.answerWith(neverAnswer());
    await assert.rejects(post({ signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
    assert.equal(webhook.hits, 1);
  });
});

test("stop ends waiting and idle connections at once", async () => {
  const { webhook, post } = await startReceiver();
  await post(); // leaves an idle connection
  webhook.answerWith(neverAnswer());
  const idle = await connectPlain(webhook.port);
  const waiting = await connectPlain(webhook.port);
  waiting.socket.write("GET / HTTP/1.1\r\nHost: loopback\r\n\r\n");
  await webhook.stop();
  await Promise.all([idle.ended, waiting.ended]);
  assert.equal(await fetchErrorCode(post()), "ECONNREFUSED");
});
