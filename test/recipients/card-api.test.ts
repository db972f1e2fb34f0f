import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { type CardApiOptions, startCardApi } from "../../src/demo/recipients/card-api.ts";
import { KEY_RETENTION_MS } from "../../src/demo/recipients/card-book.ts";
import { startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { connectPlain, fetchErrorCode, RESET } from "./support.ts";

const TOKEN = "token-of-the-test";
const ORDER = { customer: "customer:42", amount: 4_000, currency: "eur" };

const started: { stop(): Promise<void> }[] = [];
after(() => Promise.all(started.map((each) => each.stop())));

/** The API, and a client of it; `port` sends through a proxy. */
async function startCards(options: Partial<CardApiOptions> = {}) {
  const cards = await startCardApi({ token: TOKEN, ...options });
  started.push(cards);
  const charge = (
    key: string | null,
    body: unknown = ORDER,
    { port = cards.port, token = TOKEN, signal }: { port?: number; token?: string; signal?: AbortSignal } = {},
  ) =>
    fetch(`http://127.0.0.1:${port}/v1/charges`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, ...(key === null ? {} : { "Idempotency-Key": key }) },
      body: typeof body === "string" ? body : JSON.stringify(body),
      signal: signal ?? null,
    });
  const look = (path: string) =>
    fetch(`${cards.url}/v1/charges${path}`, { headers: { Authorization: `Bearer ${TOKEN}` } });
  return { cards, charge, look };
}

async function errorCode(response: Response): Promise<unknown> {
  const body: unknown = await response.json();
  return (body as { error: { code: unknown } }).error.code;
}

describe("charging", () => {
  test("a charge is booked, answered, and found by its id and by its key", async () => {
    const { cards, charge, look } = await startCards();
    const response = await charge("key-1");
    assert.equal(response.status, 200);
    const booked = (await response.json()) as { id: string };
    assert.match(booked.id, /^ch_[0-9a-f]{24}$/);
    assert.deepEqual(booked, { id: booked.id, ...ORDER, status: "succeeded" });
    assert.deepEqual(await (await look(`/${booked.id}`)).json(), booked);
    assert.deepEqual(await (await look("?idempotency_key=key-1")).json(), { data: [booked] });
    assert.deepEqual(await (await look("?idempotency_key=other")).json(), { data: [] });
    assert.equal((await look("/ch_unknown")).status, 404);
    assert.deepEqual([cards.requests, cards.charges, cards.lookups], [1, 1, 4]);
    assert.deepEqual(cards.chargesFor("key-1"), [booked]);
  });

  test("without a key every request is another charge", async () => {
    const { cards, charge } = await startCards();
    await charge(null);
    await charge(null);
    assert.deepEqual([cards.requests, cards.charges], [2, 2]);
  });

  test("a wrong token is refused and books nothing", async () => {
    const { cards, charge } = await startCards();
    assert.equal((await charge("key-1", ORDER, { token: "wrong" })).status, 401);
    assert.equal((await fetch(`${cards.url}/v1/charges?idempotency_key=key-1`)).status, 401);
    assert.deepEqual([cards.requests, cards.charges], [1, 0]);
  });

  test("parameters that the API does not take are refused, and the key stays free", async () => {
    const { cards, charge } = await startCards();
    const bad = [
      "not json",
      "null",
      "[1,2,3]",
      {},
      { ...ORDER, amount: 0 },
      { ...ORDER, amount: 1.5 },
      { ...ORDER, amount: "4000" },
      { ...ORDER, currency: "EUR" },
      { ...ORDER, customer: "" },
      { ...ORDER, approved: true },
    ];
    for (const body of bad) assert.equal((await charge("key-1", body)).status, 400, JSON.stringify(body));
    assert.equal((await charge("k".repeat(256))).status, 400);
    assert.equal(cards.charges, 0);
    assert.equal((await charge("key-1")).status, 200);
  });
});

describe("the idempotency key", () => {
  test("the same key and parameters, in any order, return the saved answer and say so", async () => {
    const { cards, charge } = await startCards();
    const first = await charge("key-1");
    const again = await charge("key-1", { currency: "eur", amount: 4_000, customer: "customer:42" });
    assert.equal(first.headers.get("Idempotent-Replayed"), null);
    assert.equal(again.headers.get("Idempotent-Replayed"), "true");
    assert.deepEqual(await again.json(), await first.json());
    assert.deepEqual([cards.requests, cards.charges, cards.requestsFor("key-1")], [2, 1, 2]);
  });

  test("a declined card is 402, books nothing, and is a saved answer too", async () => {
    const { cards, charge } = await startCards();
    const declined = { ...ORDER, customer: "customer:declined" };
    const first = await charge("key-1", declined);
    const again = await charge("key-1", declined);
    assert.deepEqual([first.status, await errorCode(first)], [402, "card_declined"]);
    assert.deepEqual([again.status, again.headers.get("Idempotent-Replayed")], [402, "true"]);
    assert.equal(cards.charges, 0);
  });

  test("other parameters are refused with 422", async () => {
    const { cards, charge } = await startCards();
    await charge("key-1");
    const other = await charge("key-1", { ...ORDER, amount: 4_001 });
    assert.deepEqual([other.status, await errorCode(other)], [422, "idempotency_mismatch"]);
    assert.equal(cards.charges, 1);
  });

  test("after 24 hours the same key is a new charge, and the lookup finds two", async () => {
    let now = 0;
    const { cards, charge, look } = await startCards({ clock: () => now });
    await charge("key-1");
    now = KEY_RETENTION_MS - 1;
    assert.equal((await charge("key-1")).headers.get("Idempotent-Replayed"), "true");
    now = KEY_RETENTION_MS;
    assert.equal((await charge("key-1")).headers.get("Idempotent-Replayed"), null);
    assert.equal(cards.charges, 2);
    const found = (await (await look("?idempotency_key=key-1")).json()) as { data: unknown[] };
    assert.equal(found.data.length, 2);
  });
});

describe("held answers", () => {
  test("while the answer is held the charge is booked, the key is in use, and other answers go on", async () => {
    const { cards, charge, look } = await startCards();
    const hold = cards.holdAnswers();
    const first = charge("key-1");
    await hold.reached;
    assert.equal(cards.charges, 1);
    const rival = await charge("key-1");
    assert.deepEqual([rival.status, await errorCode(rival)], [409, "idempotency_key_in_use"]);
    assert.equal((await look("?idempotency_key=key-1")).status, 200);
    assert.throws(() => cards.holdAnswers(), { code: "answers_already_held" });
    hold.release();
    assert.equal((await first).status, 200);
    assert.equal((await charge("key-1")).headers.get("Idempotent-Replayed"), "true");
    assert.deepEqual([cards.requests, cards.charges], [3, 1]);
  });

  test("a client that is gone while its answer is held finds the saved answer later", async () => {
    const { cards, charge } = await startCards();
    const hold = cards.holdAnswers();
    const abort = new AbortController();
    const first = charge("key-1", ORDER, { signal: abort.signal });
    await hold.reached;
    abort.abort();
    await assert.rejects(first, { name: "AbortError" });
    hold.release();
    const again = await charge("key-1");
    assert.deepEqual([again.status, again.headers.get("Idempotent-Replayed")], [200, "true"]);
    assert.equal(cards.charges, 1);
  });

  test("an answer can be delayed past a client's deadline; a delay that no timer keeps is refused", async () => {
    const { cards, charge } = await startCards({ answerDelayMs: 60_000 });
    await assert.rejects(charge("key-1", ORDER, { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
    assert.equal(cards.charges, 1);
    await assert.rejects(startCardApi({ token: TOKEN, answerDelayMs: 2 ** 31 }), { code: "delay_invalid" });
  });
});

describe("on the wire", () => {
  test("a cut reply leaves the client with an error and the recipient with one charge", async () => {
    const { cards, charge } = await startCards();
    const proxy = await startFaultProxy({ target: cards });
    started.push(proxy);
    proxy.cutReply();
    assert.equal(await fetchErrorCode(charge("key-1", ORDER, { port: proxy.port })), RESET);
    assert.deepEqual([cards.requests, cards.charges], [1, 1]);
    const again = await charge("key-1", ORDER, { port: proxy.port });
    assert.equal(again.headers.get("Idempotent-Replayed"), "true");
  });

  test("a cut request leaves the client with the same error and the recipient with none", async () => {
    const { cards, charge } = await startCards();
    const proxy = await startFaultProxy({ target: cards });
    started.push(proxy);
    proxy.cutBeforeRequest();
    assert.equal(await fetchErrorCode(charge("key-1", ORDER, { port: proxy.port })), RESET);
    assert.deepEqual([cards.requests, cards.charges], [0, 0]);
  });

  test("a request that was not sent to its end is none", async () => {
    const { cards, charge } = await startCards();
    const client = await connectPlain(cards.port);
    client.socket.write("POST /v1/charges HTTP/1.1\r\nHost: loopback\r\nContent-Length: 500\r\n\r\n{", () =>
      client.socket.resetAndDestroy(),
    );
    await client.ended;
    assert.equal((await charge("key-1")).status, 200);
    assert.deepEqual([cards.requests, cards.charges], [1, 1]);
  });

  test("stop closes kept-alive and waiting connections at once", async () => {
    const { cards, charge } = await startCards();
    await charge("key-1"); // leaves an idle connection
    const idle = await connectPlain(cards.port);
    const hold = cards.holdAnswers();
    const waiting = fetchErrorCode(charge("key-2"));
    await hold.reached;
    await cards.stop();
    await cards.stop();
    await idle.ended;
    assert.notEqual(await waiting, "no error");
    assert.equal(await fetchErrorCode(charge("key-3")), "ECONNREFUSED");
  });

  test("stop tells who waits for a hold that never came", async () => {
    const { cards } = await startCards();
    const hold = cards.holdAnswers();
    await cards.stop();
    await assert.rejects(hold.reached, { code: "recipient_stopped" });
  });
});
