/** Whatever an adapter throws, the worker lives, its neighbours finish, and the record holds clean, bounded text (case 2). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { startWebhookReceiver } from "../../src/demo/recipients/webhook.ts";
import {
  cutInsideCharacter,
  respondWithHalfCharacter,
  respondWithNul,
  type WebhookAnswer,
} from "../../src/demo/recipients/webhook-answers.ts";
import httpRequest from "../../tasks/http_request.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const { ledger } = subject;

class Unreadable extends Error {
  override get message(): string {
    throw new Error("no message");
  }
}
const cyclic: Error & { cause?: unknown } = new Error("cyclic");
cyclic.cause = cyclic;
const hostile = new Proxy(() => {}, {
  get: () => {
    throw new Error("not readable");
  },
  getPrototypeOf: () => {
    throw new Error("not readable");
  },
});

const THROWN: Readonly<Record<string, unknown>> = {
  "an Error whose message getter throws": new Unreadable(),
  undefined: undefined,
  null: null,
  "a string": "out of paper",
  "an empty string": "",
  "a Proxy that throws on every read": hostile,
  "a cyclic cause": cyclic,
  "a message of 5 MB": new Error("x".repeat(5_000_000)),
  "a message with U+0000 and half a pair": new Error("a\0b \ud83d"),
  "a symbol": Symbol("s"),
  "an object without a prototype": Object.create(null),
  "an object whose toString throws": { toString: () => hostile() },
  "an AggregateError of those": new AggregateError([cyclic, undefined, hostile], "\0"),
};

const { operation, hits } = countedOperation("send_note", {
  dispatch: ({ target }) => {
    if (!Object.hasOwn(THROWN, target)) return { report: "accepted", proof: { receipt: "r" } };
    throw THROWN[target];
  },
});
const rejecting = countedOperation("reject_note", {
  dispatch: ({ target }) => Promise.reject(THROWN[target]),
});

before(() => subject.work({ operations: [operation, rejecting.operation, httpRequest], concurrency: 4, secrets: {} }));

/** The words that the record holds of an effect that nobody can tell about; nothing of it may be locked or waiting. */
async function unresolvedReason(id: string): Promise<string> {
  const standing = await subject.ended(id);
  assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
  await subject.idle();
  return subject.value<string>("select reason from audit.unresolved where effect_id = $1", [id]);
}

/** Another effect, asked for afterwards, is sent. */
async function neighbourFinishes() {
  const id = await ledger.enqueue(operation, { to: "neighbour" });
  assert.equal((await subject.ended(id)).state, "accepted");
}

function assertClean(reason: string) {
  assert.ok(reason.length > 0 && reason.length < 2_100, `${reason.length} characters`);
  assert.ok(reason.isWellFormed() && !/\p{Cc}/u.test(reason), JSON.stringify(reason.slice(0, 200)));
}

for (const name of Object.keys(THROWN)) {
  test(`${name}, thrown or rejected with, leaves the effect unresolved and the worker alive`, async () => {
    for (const each of [{ operation, hits }, rejecting]) {
      const id = await ledger.enqueue(each.operation, { to: name });
      assertClean(await unresolvedReason(id));
      assert.equal(each.hits(name), 1);
    }
    await neighbourFinishes();
  });
}

test("a report that is no report leaves the effect unresolved", async () => {
  const reports: unknown[] = [
    undefined,
    null,
    "accepted",
    {},
    { report: "done" },
    hostile,
    { report: "accepted", proof: hostile },
  ];
  const odd = countedOperation("odd_note", { dispatch: ({ target }) => reports[Number(target)] as never });
  const worker = await subject.work({ operations: [odd.operation] });
  for (const place of reports.keys()) {
    const id = await ledger.enqueue(odd.operation, { to: String(place) });
    assertClean(await unresolvedReason(id));
    assert.equal(odd.hits(String(place)), 1);
  }
  await worker.stop();
});

const ANSWERS: Readonly<Record<string, WebhookAnswer>> = {
  "500 with U+0000 in its body": respondWithNul(500),
  "500 that ends inside a character": respondWithHalfCharacter(500),
  "200 that is cut inside a character": cutInsideCharacter(200),
};
for (const [name, answer] of Object.entries(ANSWERS)) {
  test(`a recipient that answers ${name} leaves the effect unresolved after one request`, async () => {
    const receiver = await startWebhookReceiver();
    subject.atEnd(() => receiver.stop());
    receiver.answerWith(answer);
    const id = await ledger.enqueue(httpRequest, { method: "POST", url: receiver.url });
    assertClean(await unresolvedReason(id));
    assert.equal(receiver.hits, 1);
    await neighbourFinishes();
  });
}
