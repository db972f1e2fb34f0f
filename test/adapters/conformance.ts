/**
 * What every adapter must keep, whatever its recipient: one suite that each adapter's test runs against the real one. It
 * counts at the recipient, never by what the adapter says.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { describe, test } from "node:test";
import type { AnyOperation } from "../../src/core/operation.ts";
import {
  type AnyEffect,
  bind,
  dispatch,
  fence,
  outcomeOf,
  reconcile,
  type Secrets,
  type StubOptions,
} from "./context.ts";

/** From the abort to the settled promise. Ending a process or a socket takes milliseconds; the machine may be loaded. */
export const ABORT_MS_MAX = 2_000;
/** Each round is a race with two possible winners; a few rounds show both on most runs. */
const RACE_ROUNDS = 4;

/** A recipient, as the suite sees it. Its functions are called from within tests only. */
export interface Subject {
  readonly operation: AnyOperation;
  secrets?(): Secrets;
  /** False where the recipient at hand cannot be asked. */
  readonly looksUp: boolean;
  /** A valid input for a change that nobody has asked for yet. */
  input(): Promise<unknown>;
  /** How often the recipient made this effect's change. */
  changes(effect: AnyEffect): Promise<number>;
  /** Waits for what the recipient still does after it has accepted. */
  settled?(effect: AnyEffect): Promise<void>;
  /** The same effect at a listener that accepts connections and never says a word. */
  atSilence(effect: AnyEffect, port: number): { effect: AnyEffect; secrets: Secrets };
}

export function describeConformance(name: string, subject: Subject): void {
  describe(`${name} conforms`, () => {
    const fresh = async () => {
      const options: StubOptions = { secrets: subject.secrets?.() ?? {} };
      return { ...subject, options, effect: await bind(subject.operation, await subject.input(), options) };
    };

    test("an accepted dispatch changed the recipient once, and its proof is of the declared shape", async () => {
      const { operation, effect, options, changes, settled } = await fresh();
      assert.equal(await changes(effect), 0);
      const report = await dispatch(operation, effect, options);
      await settled?.(effect);
      assert.equal(report.report, "accepted", JSON.stringify(report));
      assert.ok(report.report === "accepted" && operation.definition.proof?.safeParse(report.proof).success);
      assert.equal(await changes(effect), 1);
    });

    test("a lookup finds nothing before the dispatch, and the same reference after it", async (context) => {
      const { operation, effect, options, changes, looksUp, settled } = await fresh();
      if (!looksUp) return context.skip("this recipient cannot be asked");
      assert.equal((await reconcile(operation, effect, options)).report, "absent");
      assert.equal(await changes(effect), 0);
      const sent = await dispatch(operation, effect, options);
      await settled?.(effect);
      const found = await reconcile(operation, effect, options);
      assert.ok(sent.report === "accepted" && found.report === "accepted", JSON.stringify({ sent, found }));
      const reference = operation.definition.contract?.reference;
      assert.ok(reference, "the contract names a reference");
      assert.equal(reference(found.proof), reference(sent.proof));
      assert.equal(await changes(effect), 1);
    });

    test("an abort ends a dispatch at a silent recipient in time, and leaves no connection", async (context) => {
      const { operation, effect } = await fresh();
      const silence = await listenSilently();
      context.after(silence.stop);
      const moved = subject.atSilence(effect, silence.port);
      const abort = new AbortController();
      const ended = outcomeOf(dispatch(operation, moved.effect, { secrets: moved.secrets, signal: abort.signal }));
      await silence.connected;
      const from = performance.now();
      abort.abort();
      const outcome = await ended;
      assert.ok(performance.now() - from < ABORT_MS_MAX, "the adapter outlived its signal");
      assert.ok(["thrown", "unknown", "notSent"].includes(outcome), outcome);
      await silence.allClosed();
    });

    if (subject.operation.definition.fence) describeFence(fresh);
  });
}

function describeFence(fresh: () => Promise<Subject & { options: StubOptions; effect: AnyEffect }>): void {
  test("after a fence a late dispatch is refused and changes nothing", async () => {
    const { operation, effect, options, changes } = await fresh();
    assert.equal((await fence(operation, effect, options)).report, "fenced");
    const late = await dispatch(operation, effect, options);
    assert.equal(late.report, "failed", JSON.stringify(late));
    assert.equal(await changes(effect), 0);
  });

  test("a lookup that meets a void mark whose maker recorded nothing says fenced", async () => {
    const { operation, effect, options } = await fresh();
    await fence(operation, effect, options);
    assert.equal((await reconcile(operation, effect, options)).report, "fenced");
  });

  test("a second fence is the same as the first", async () => {
    const { operation, effect, options } = await fresh();
    const [first, second] = [await fence(operation, effect, options), await fence(operation, effect, options)];
    assert.deepEqual(second, first);
  });

  test("a fence that comes after acceptance comes back with the proof", async () => {
    const { operation, effect, options, changes } = await fresh();
    const sent = await dispatch(operation, effect, options);
    const fenced = await fence(operation, effect, options);
    assert.ok(sent.report === "accepted" && fenced.report === "accepted", JSON.stringify({ sent, fenced }));
    assert.deepEqual(fenced.proof, sent.proof);
    assert.equal(await changes(effect), 1);
  });

  test("when a fence and the dispatch race, one of them wins and both know which", async () => {
    for (let round = 0; round < RACE_ROUNDS; round += 1) {
      const { operation, effect, options, changes } = await fresh();
      const [sent, fenced] = await Promise.all([
        dispatch(operation, effect, options),
        fence(operation, effect, options),
      ]);
      const told = JSON.stringify({ sent, fenced });
      const changed = await changes(effect);
      if (fenced.report === "accepted") {
        assert.deepEqual([sent.report, changed], ["accepted", 1], told);
      } else {
        assert.equal(fenced.report, "fenced", told);
        assert.notEqual(sent.report, "accepted", told);
        assert.equal(changed, 0, told);
      }
    }
  });
}

/** A listener that accepts connections, reads, and never answers. */
async function listenSilently() {
  const sockets = new Set<Socket>();
  const first = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
    socket.resume();
    first.resolve();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address && typeof address === "object");
  return {
    port: address.port,
    connected: first.promise,
    /** Resolves when the clients have closed every connection; the test's own timeout is the bound. */
    allClosed: () => Promise.all([...sockets].map((socket) => once(socket, "close"))),
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
