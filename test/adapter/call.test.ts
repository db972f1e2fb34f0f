import assert from "node:assert/strict";
import { beforeEach, describe, mock, test } from "node:test";
import { type AdapterEnd, callAdapter } from "../../src/adapter/call.ts";
import type { AdapterContext } from "../../src/core/operation.ts";
import { NO_SECRETS, Secrets } from "../../src/core/secret.ts";

const TIMEOUT_MS = 30_000;
const GRACE_MS = 1_000;
const call = <Result>(adapter: (context: AdapterContext) => Promise<Result> | Result, secrets = NO_SECRETS) =>
  callAdapter(adapter, { timeoutMs: TIMEOUT_MS, secrets });

/** Lets everything that is ready run: no time passes. */
const settled = () => new Promise(setImmediate);
/** Time passes, by the mocked clock. */
async function pass(ms: number): Promise<void> {
  await settled();
  mock.timers.tick(ms);
  await settled();
}
/** What a call has come to; `pending` while it has not. */
const nowOf = async <Result>(end: Promise<AdapterEnd<Result>>) =>
  (await Promise.race([end, settled().then(() => "pending" as const)])) as AdapterEnd<Result> | "pending";

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_800_000_000_000 });
});

describe("an adapter that answers in time", () => {
  test("gives its answer, at once or later", async () => {
    assert.deepEqual(await call(() => 1), { end: "returned", value: 1 });
    assert.deepEqual(await call(() => settled().then(() => 2)), { end: "returned", value: 2 });
  });

  test("has the deadline, a signal that is quiet, and the secrets that are declared", async () => {
    const secrets = new Secrets(["KEY"], { KEY: "sk_1", OTHER: "sk_2" });
    const end = await call(
      ({ deadline, signal, secret }) => [deadline.getTime() - Date.now(), signal.aborted, secret("KEY")],
      secrets,
    );
    assert.deepEqual(end, { end: "returned", value: [TIMEOUT_MS, false, "sk_1"] });
    const undeclared = await call(({ secret }) => secret("OTHER"), secrets);
    assert.equal(undeclared.end, "threw");
  });
});

describe("an adapter that throws", () => {
  const noMessage = Object.defineProperty(new Error("x"), "message", { get: () => assert.fail("read") });
  const cyclic = new Error("again");
  cyclic.cause = { cause: cyclic };
  const unreadable = new Proxy(
    {},
    { get: () => assert.fail("read"), getPrototypeOf: () => assert.fail("read"), has: () => assert.fail("read") },
  );
  const THROWN: Readonly<Record<string, unknown>> = {
    "an Error": new Error("no"),
    "an Error whose message getter throws": noMessage,
    "an Error that is its own cause": cyclic,
    undefined: undefined,
    null: null,
    "a string": "no",
    "a Proxy that throws on every read": unreadable,
    "a message of 5 MB": new Error("x".repeat(5_000_000)),
    "a message with U+0000 and half an emoji": new Error("500: \0 \ud83d"),
  };
  const how: Readonly<Record<string, (thrown: unknown) => Promise<never>>> = {
    "at once": (thrown) => {
      throw thrown;
    },
    "as a rejection": (thrown) => Promise.reject(thrown),
  };
  for (const [what, thrown] of Object.entries(THROWN)) {
    for (const [when, adapter] of Object.entries(how)) {
      test(`${what}, ${when}: the reason is clean and bounded`, async () => {
        const end = await call(() => adapter(thrown));
        assert.ok(end.end === "threw" && end.reason.length > 0 && end.reason.length < 2_100);
        assert.ok(end.reason.isWellFormed());
        assert.doesNotMatch(end.reason, /\p{Cc}/u);
      });
    }
  }

  test("by what it returns: a value that cannot be awaited", async () => {
    const end = await call(() => unreadable);
    assert.equal(end.end, "threw");
  });

  test("its words hold no secret, also one of several lines or at the cut", async () => {
    const secrets = new Secrets(["KEY"], { KEY: "-----BEGIN\nabcdef\nEND-----" });
    for (const before of ["", "x".repeat(1_990)]) {
      const end = await call(() => Promise.reject(new Error(`${before}-----BEGIN\nabcdef\nEND-----`)), secrets);
      assert.doesNotMatch(end.end === "threw" ? end.reason : "BEGIN", /BEGIN/);
    }
  });
});

describe("an adapter that is out of time", () => {
  /** An adapter that the test ends, and whether its signal has spoken. */
  function held() {
    const answer = Promise.withResolvers<number>();
    let signal: AbortSignal | undefined;
    const end = call((context) => {
      signal = context.signal;
      return answer.promise;
    });
    return { answer, end, aborted: () => signal?.aborted };
  }

  test("is told by its signal at the deadline and not before", async () => {
    const { end, aborted } = held();
    await pass(TIMEOUT_MS - 1);
    assert.equal(aborted(), false);
    await pass(1);
    assert.equal(aborted(), true);
    assert.equal(await nowOf(end), "pending"); // it has a moment to end what it started
  });

  test("and ends by throwing has ended without an answer", async () => {
    const { answer, end } = held();
    await pass(TIMEOUT_MS);
    answer.reject(new Error("aborted"));
    assert.deepEqual(await end, { end: "timed_out", reason: "no answer within 30000 ms: Error: aborted", later: null });
  });

  test("and still answers within the grace has answered", async () => {
    const { answer, end } = held();
    await pass(TIMEOUT_MS);
    await pass(GRACE_MS - 1);
    answer.resolve(1);
    assert.deepEqual(await end, { end: "returned", value: 1 });
  });

  test("and never settles holds up nobody", async () => {
    const { end } = held();
    await pass(TIMEOUT_MS);
    await pass(GRACE_MS);
    const ended = await nowOf(end);
    assert.ok(ended !== "pending" && ended.end === "timed_out" && ended.later);
    assert.match(ended.reason, /ignored its signal/);
  });

  test("and answers, or throws, after all: whoever waits for it learns it", async () => {
    for (const thrown of [false, true]) {
      const { answer, end } = held();
      await pass(TIMEOUT_MS);
      await pass(GRACE_MS);
      const ended = await end;
      assert.ok(ended.end === "timed_out" && ended.later);
      if (thrown) answer.reject(new Error("late"));
      else answer.resolve(2);
      assert.deepEqual(
        await ended.later,
        thrown ? { end: "threw", reason: "Error: late" } : { end: "returned", value: 2 },
      );
    }
  });
});
