/** At a real HTTP recipient: one request, and only what the adapter validated is proof (cases 19 and 23). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { startWebhookReceiver } from "../../src/demo/recipients/webhook.ts";
import {
  redirect,
  resetAfterReading,
  respond,
  respondHtml,
  respondJson,
  type WebhookAnswer,
} from "../../src/demo/recipients/webhook-answers.ts";
import httpRequest from "../../tasks/http_request.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const receiver = await startWebhookReceiver();
const elsewhere = await startWebhookReceiver();
subject.atEnd(() => Promise.all([receiver.stop(), elsewhere.stop()]));

before(() => subject.work({ operations: [httpRequest], secrets: {} }));

/** Sends one request at a recipient that gives this answer; returns the standing, after the queue has nothing more to do. */
async function send(
  answer: WebhookAnswer,
  accept: { reference?: string | null; equals?: Record<string, boolean> } = {},
) {
  receiver.answerWith(answer);
  const hits = receiver.hits;
  const id = await ledger.enqueue(httpRequest, { method: "POST", url: receiver.url, body: { amount: 1 }, accept });
  const standing = await subject.ended(id);
  await subject.idle();
  assert.equal(receiver.hits - hits, 1, "requests that arrived");
  return standing;
}

test("a recipient that reads the request and resets the connection was asked once, and the effect is unresolved", async () => {
  const standing = await send(resetAfterReading());
  assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
});

const UNPROVEN: Readonly<Record<string, WebhookAnswer>> = {
  '200 with {"ok":false}': respondJson(200, { ok: false }),
  "200 with HTML": respondHtml(200),
  "an empty 200": respond(200),
  "202": respondJson(202, { id: "1", ok: true }),
  "204": respond(204),
  "500": respondJson(500, { id: "1", ok: true }),
  "404": respond(404),
};
for (const [name, answer] of Object.entries(UNPROVEN)) {
  test(`${name} is no proof: the effect is unresolved`, async () => {
    const standing = await send(answer, { reference: "/id", equals: { "/ok": true } });
    assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
  });
}

for (const status of [301, 302, 307, 308] as const) {
  test(`${status} to another listener is not followed`, async () => {
    const standing = await send(redirect(status, `${elsewhere.url}/charge`), { reference: null });
    assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
    assert.equal(elsewhere.hits, 0);
  });
}

test("an answer that is as the request said is the proof, with the recipient's own id", async () => {
  const standing = await send(respondJson(201, { id: "ch_1", ok: true }), {
    reference: "/id",
    equals: { "/ok": true },
  });
  assert.ok(standing.state === "accepted");
  assert.deepEqual(standing.proof, { status: 201, reference: "ch_1" });
  assert.deepEqual(await subject.value("select reference from audit.effects where state = 'accepted'"), "ch_1");
});

test("a recipient that nobody listens at was not asked: no_effect", async () => {
  const gone = await startWebhookReceiver();
  await gone.stop();
  const id = await ledger.enqueue(httpRequest, { method: "POST", url: gone.url });
  assert.equal((await subject.ended(id)).state, "no_effect");
});
