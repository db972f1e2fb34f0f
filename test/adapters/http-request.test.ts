/** tasks/http_request.ts against HTTP servers on loopback: a card API with Idempotency-Key, and a receiver of anything. */
import assert from "node:assert/strict";
import { createServer as createHttpServer } from "node:http";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { type CardApi, startCardApi } from "../../src/demo/recipients/card-api.ts";
import { DECLINED_CUSTOMER } from "../../src/demo/recipients/card-book.ts";
import { listenOnLoopback } from "../../src/demo/recipients/loopback.ts";
import { startWebhookReceiver, type WebhookReceiver } from "../../src/demo/recipients/webhook.ts";
import {
  cutInsideCharacter,
  redirect,
  resetAfterReading,
  respond,
  respondHtml,
  respondJson,
  respondWithNul,
  type WebhookAnswer,
} from "../../src/demo/recipients/webhook-answers.ts";
import { freePort } from "../../src/postgres/port.ts";
import httpRequest from "../../tasks/http_request.ts";
import { describeConformance } from "./conformance.ts";
import { type AnyEffect, bind, dispatch, outcomeOf, prepare, reconcile, type Secrets } from "./context.ts";

const TOKEN = "token-of-the-test";

let cards: CardApi;
before(async () => {
  cards = await startCardApi({ token: TOKEN });
});
after(() => cards.stop());

let receiver: WebhookReceiver;
beforeEach(async () => {
  receiver = await startWebhookReceiver();
});
afterEach(() => receiver.stop());

describeConformance("http_request with Idempotency-Key", {
  operation: httpRequest,
  secrets: cardSecrets,
  looksUp: true,
  input: async () => charge(),
  changes: async ({ key }) => cards.chargesFor(key).length,
  atSilence: (effect, port) => ({ effect: at(effect, `http://127.0.0.1:${port}/`), secrets: silentSecrets(port) }),
});

describe("a charge", () => {
  test("goes out once under the effect's key, and a declared refusal is one", async () => {
    const input = { ...charge(), body: { customer: DECLINED_CUSTOMER, amount: 4000, currency: "eur" } };
    const effect = await bind(httpRequest, input, { secrets: cardSecrets() });
    const report = await dispatch(httpRequest, effect, { secrets: cardSecrets() });
    assert.partialDeepStrictEqual(report, { report: "failed", code: "refused", evidence: { status: 402 } });
    assert.deepEqual([cards.requestsFor(effect.key), cards.chargesFor(effect.key).length], [1, 0]);
  });

  test("that was booked while its answer was lost is found by its key", async () => {
    const effect = await bind(httpRequest, charge(), { secrets: cardSecrets() });
    const answer = cards.holdAnswers();
    const abort = new AbortController();
    const outcome = outcomeOf(dispatch(httpRequest, effect, { secrets: cardSecrets(), signal: abort.signal }));
    await answer.reached;
    abort.abort();
    assert.equal(await outcome, "thrown");
    answer.release();
    const found = await reconcile(httpRequest, effect, { secrets: cardSecrets() });
    assert.equal(found.report === "accepted" && found.proof.reference, cards.chargesFor(effect.key)[0]?.id);
    assert.equal(cards.requestsFor(effect.key), 1);
  });

  test("costs what its input says, at most", () => {
    const parsed = httpRequest.definition.input.parse({ ...charge(), cost: { eur_cents: "4000", calls: 1 } });
    assert.deepEqual(httpRequest.definition.contract?.cost?.(parsed), { eur_cents: 4000n, calls: 1n });
    assert.equal(httpRequest.definition.input.safeParse({ ...charge(), cost: { eur_cents: "1e3" } }).success, false);
    assert.equal(httpRequest.definition.input.safeParse({ ...charge(), cost: { eur_cents: -1 } }).success, false);
  });
});

describe("an answer", () => {
  const unproven: [string, () => WebhookAnswer][] = [
    ['200 with {"ok":false}', () => respondJson(200, { ok: false })],
    ["200 with an id of the wrong kind", () => respondJson(200, { id: {} })],
    ["200 with HTML", () => respondHtml()],
    ["200 with JSON that calls itself text", () => respond(200, '{"id":"x"}', { "Content-Type": "text/plain" })],
    ["200 without a body", () => respond(200)],
    ["202", () => respondJson(202, { id: "x" })],
    ["204", () => respond(204)],
    ["400 that nobody declared", () => respondJson(400, { error: "no" })],
    ["409", () => respondJson(409, { error: "in use" })],
    ["421, which fetch would send again", () => respondJson(421, {})],
    ["429", () => respondJson(429, {})],
    ["500 with U+0000", () => respondWithNul()],
    [
      "200 with more than is read",
      () => respond(200, `{"id":"x"}${" ".repeat(70_000)}`, { "Content-Type": "application/json" }),
    ],
    ...[301, 302, 307, 308].map((status): [string, () => WebhookAnswer] => [
      `${status} to another listener`,
      () => redirect(status as 301, `${cards.url}/v1/charges/none`),
    ]),
  ];
  for (const [name, answer] of unproven) {
    test(`${name} is no proof: one hit, and nobody knows`, async () => {
      receiver.answerWith(answer());
      const lookups = cards.lookups;
      const effect = await bind(httpRequest, webhook());
      const report = await dispatch(httpRequest, effect);
      assert.ok(report.report === "unknown", JSON.stringify(report));
      assert.match(report.reason, /^answered \d{3} /);
      assert.ok(report.reason.length < 600 && !/\p{Cc}/u.test(report.reason), report.reason);
      assert.deepEqual([receiver.hits, cards.lookups], [1, lookups]);
    });
  }

  test("counts as the input declares it: a status alone, a fixed value, a number as id", async () => {
    const declared: [WebhookAnswer, object, object][] = [
      [respond(202), { status: [202], reference: null }, { status: 202, reference: null }],
      [respondJson(200, { ok: true }), { reference: null, equals: { "/ok": true } }, { status: 200, reference: null }],
      [respondJson(201, { data: [{ id: 7 }] }), { reference: "/data/0/id" }, { status: 201, reference: "7" }],
    ];
    for (const [answer, accept, proof] of declared) {
      receiver.answerWith(answer);
      const report = await dispatch(httpRequest, await bind(httpRequest, { ...webhook(), accept }));
      assert.deepEqual(report.report === "accepted" && report.proof, proof, JSON.stringify(report));
    }
    receiver.answerWith(respondJson(200, { ok: false }));
    const accept = { reference: null, equals: { "/ok": true } };
    assert.equal((await dispatch(httpRequest, await bind(httpRequest, { ...webhook(), accept }))).report, "unknown");
  });

  test("that a refusal's fixed value does not match is no refusal", async () => {
    const refusals = [{ status: 402, equals: { "/error/code": "card_declined" } }];
    const effect = await bind(httpRequest, { ...webhook(), refusals });
    receiver.answerWith(
      respondJson(402, { error: { code: "rate" } }),
      respondJson(402, { error: { code: "card_declined" } }),
    );
    assert.equal((await dispatch(httpRequest, effect)).report, "unknown");
    assert.equal((await dispatch(httpRequest, effect)).report, "failed");
  });

  for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
    test(`that is a reset after the request was read leaves one hit of ${method}`, async () => {
      receiver.answerWith(resetAfterReading());
      const effect = await bind(httpRequest, { ...webhook(), method });
      assert.equal(await outcomeOf(dispatch(httpRequest, effect)), "thrown");
      assert.equal(receiver.hits, 1);
      assert.deepEqual(await reconcile(httpRequest, effect), { report: "unknown", reason: "no lookup is declared" });
    });
  }

  test("that breaks off in the middle of a character is none", async () => {
    receiver.answerWith(cutInsideCharacter());
    assert.equal(await outcomeOf(dispatch(httpRequest, await bind(httpRequest, webhook()))), "thrown");
    assert.equal(receiver.hits, 1);
  });

  test("that never ends is read no further than the bound", async (context) => {
    const endless = createHttpServer((asked, answer) => {
      asked.resume();
      answer.writeHead(200, { "content-type": "application/json" });
      const more = () => {
        while (answer.write("x".repeat(16_384)));
      };
      answer.on("drain", more);
      more();
    });
    const listener = await listenOnLoopback(endless);
    context.after(() => listener.stop());
    const effect = await bind(httpRequest, { ...webhook(), url: `http://127.0.0.1:${listener.port}/` });
    assert.equal((await dispatch(httpRequest, effect)).report, "unknown");
  });

  test("of nobody, where the connection is refused, means that nothing was sent", async () => {
    const effect = await bind(httpRequest, { ...webhook(), url: `http://127.0.0.1:${await freePort()}/` });
    const report = await dispatch(httpRequest, effect);
    assert.deepEqual(report, { report: "notSent", evidence: { reason: "no connection", code: "ECONNREFUSED" } });
  });
});

describe("a lookup", () => {
  const match = (amount: number) => ({ id: `ch_${amount}`, amount });
  const answers: [string, WebhookAnswer, string][] = [
    ["one match equal to the binding", respondJson(200, { data: [match(4000)] }), "accepted"],
    ["one match that differs", respondJson(200, { data: [match(4001)] }), "unknown"],
    ["two matches", respondJson(200, { data: [match(4000), match(4000)] }), "unknown"],
    ["no match", respondJson(200, { data: [] }), "absent"],
    ["404", respondJson(404, {}), "absent"],
    ["an answer without the place of the match", respondJson(200, {}), "thrown"],
    ["HTML", respondHtml(), "thrown"],
    ["401", respondJson(401, {}), "thrown"],
    ["429", respondJson(429, {}), "thrown"],
    ["500", respondJson(500, { data: [] }), "thrown"],
    ["a redirect", redirect(302, "http://127.0.0.1:1/"), "thrown"],
    ["a reset", resetAfterReading(), "thrown"],
  ];
  for (const [name, answer, outcome] of answers) {
    test(`that gets ${name} is ${outcome}`, async () => {
      const effect = await bind(httpRequest, { ...webhook(), lookup: lookup() });
      receiver.answerWith(answer);
      assert.equal(await outcomeOf(reconcile(httpRequest, effect)), outcome);
      assert.deepEqual(
        receiver.requests.map(({ method, path }) => [method, path]),
        [["GET", `/charges?key=${effect.key}`]],
      );
    });
  }

  test("that finds nothing twice and then something says so each time, and sends nothing", async () => {
    const effect = await bind(httpRequest, { ...webhook(), lookup: lookup() });
    receiver.answerWith(respondJson(404, {}), respondJson(404, {}), respondJson(200, { data: [match(4000)] }));
    const said = [];
    for (let time = 0; time < 3; time += 1) said.push((await reconcile(httpRequest, effect)).report);
    assert.deepEqual(said, ["absent", "absent", "accepted"]);
    assert.ok(receiver.requests.every(({ method }) => method === "GET"));
  });
});

describe("the token", () => {
  test("goes to its own origin alone", async () => {
    const elsewhere = { HTTP_REQUEST_TOKEN: TOKEN, HTTP_REQUEST_ORIGIN: cards.url };
    const stranger = await bind(httpRequest, webhook(), { secrets: elsewhere });
    await dispatch(httpRequest, stranger, { secrets: elsewhere });
    assert.equal(receiver.requests[0]?.headers.authorization, undefined);
    const home = { HTTP_REQUEST_TOKEN: TOKEN, HTTP_REQUEST_ORIGIN: receiver.url };
    const own = await bind(httpRequest, webhook(), { secrets: home });
    assert.ok(!JSON.stringify(own).includes(TOKEN));
    await dispatch(httpRequest, own, { secrets: home });
    assert.equal(receiver.requests[1]?.headers.authorization, `Bearer ${TOKEN}`);
    assert.equal((await dispatch(httpRequest, own)).report, "notSent");
    assert.equal(receiver.hits, 2);
  });

  test("without an origin goes nowhere", async () => {
    const secrets = { HTTP_REQUEST_TOKEN: TOKEN };
    await assert.rejects(async () => prepare(httpRequest, webhook(), { secrets }), { code: "origin_missing" });
  });
});

test("what the input must not set or name is refused", () => {
  const refused: object[] = [
    { headers: { authorization: "Bearer x" } },
    { headers: { cookie: "a=b" } },
    { headers: { "x-a": "b\r\nx-c: d" } },
    { idempotencyKeyHeader: "host" },
    { url: "http://user:pw@127.0.0.1/" },
    { url: "file:///etc/hosts" },
    { accept: { status: [302] } },
    { refusals: [{ status: 500 }] },
    { lookup: { ...lookup(), url: "http://elsewhere.test/{key}" } },
    { lookup: { ...lookup(), equals: {} } },
    { lookup: { ...lookup(), url: `${receiver.url}/all` } },
  ];
  const { input } = httpRequest.definition;
  assert.ok(input.safeParse({ ...webhook(), lookup: lookup() }).success);
  for (const part of refused) {
    assert.equal(input.safeParse({ ...webhook(), ...part }).success, false, JSON.stringify(part));
  }
});

function webhook() {
  return { method: "POST", url: `${receiver.url}/hook`, body: { order: 42 } };
}

function lookup() {
  return { url: `${receiver.url}/charges?key={key}`, found: "/data", equals: { "/amount": 4000 } };
}

function charge() {
  const body = { customer: "customer:42", amount: 4000, currency: "eur" };
  return {
    method: "POST",
    url: `${cards.url}/v1/charges`,
    body,
    idempotencyKeyHeader: "idempotency-key",
    accept: { equals: { "/status": "succeeded", "/amount": 4000 } },
    refusals: [{ status: 402, equals: { "/error/code": "card_declined" } }],
    lookup: {
      url: `${cards.url}/v1/charges?idempotency_key={key}`,
      found: "/data",
      equals: { "/customer": body.customer, "/amount": body.amount, "/currency": body.currency },
    },
  };
}

function cardSecrets(): Secrets {
  return { HTTP_REQUEST_TOKEN: TOKEN, HTTP_REQUEST_ORIGIN: cards.url };
}

function silentSecrets(port: number): Secrets {
  return { HTTP_REQUEST_TOKEN: TOKEN, HTTP_REQUEST_ORIGIN: `http://127.0.0.1:${port}` };
}

function at(effect: AnyEffect, url: string): AnyEffect {
  return { ...effect, payload: { ...effect.payload, url } };
}
