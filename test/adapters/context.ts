/**
 * What an adapter gets from the core, for tests that call it directly: a context with a real signal and secrets from a map,
 * and an effect bound by the operation's own `prepare`. It decides nothing: no ledger stands behind it.
 */
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { LedgerError } from "../../src/core/error.ts";
import type { AnyOperation, BoundEffect, DispatchContext } from "../../src/core/operation.ts";

export type Secrets = Readonly<Record<string, string>>;
// biome-ignore lint/suspicious/noExplicitAny: the payload is the operation's own business, as in AnyOperation
export type AnyEffect = BoundEffect<any>;

/** Long enough for any recipient here; a test that waits for it has failed. */
const WINDOW_MS = 15_000;

export interface StubOptions {
  readonly secrets?: Secrets;
  /** Ends the adapter early, as the core does at the deadline. */
  readonly signal?: AbortSignal;
}

export function adapterContext({ secrets = {}, signal }: StubOptions = {}): DispatchContext {
  const window = AbortSignal.timeout(WINDOW_MS);
  return {
    signal: signal ? AbortSignal.any([signal, window]) : window,
    deadline: new Date(Date.now() + WINDOW_MS),
    secret(name) {
      const value = secrets[name];
      if (value === undefined) throw new LedgerError("secret_missing", `${name} is not set`);
      return value;
    },
    reference: async () => {},
    assertAuthority: async () => {},
  };
}

/** Checks the input and prepares it, as the core does; the key is fresh unless given. */
export async function bind(operation: AnyOperation, input: unknown, options: StubOptions & { key?: string } = {}) {
  const prepared = await prepare(operation, input, options);
  assert.ok(!("invalid" in prepared), `prepare declined: ${"invalid" in prepared ? prepared.invalid : ""}`);
  const effect: AnyEffect = {
    id: randomUUID(),
    key: options.key ?? randomBytes(16).toString("hex"),
    account: prepared.account ?? null,
    target: prepared.target,
    payload: prepared.payload,
    precondition: prepared.precondition ?? null,
    attempt: randomUUID(),
  };
  return effect;
}

export async function prepare(operation: AnyOperation, input: unknown, options: StubOptions = {}) {
  const { definition } = operation;
  assert.ok(definition.prepare, "every adapter here prepares");
  return definition.prepare(definition.input.parse(input), adapterContext(options));
}

export async function dispatch(operation: AnyOperation, effect: AnyEffect, options: StubOptions = {}) {
  return operation.definition.dispatch(effect, adapterContext(options));
}

export async function reconcile(operation: AnyOperation, effect: AnyEffect, options: StubOptions = {}) {
  assert.ok(operation.definition.reconcile, "the operation has a lookup");
  return operation.definition.reconcile(effect, adapterContext(options));
}

export async function fence(operation: AnyOperation, effect: AnyEffect, options: StubOptions = {}) {
  assert.ok(operation.definition.fence, "the operation has a fence");
  return operation.definition.fence(effect, adapterContext(options));
}

/** How a report ended, or `thrown`: what the core records as unresolved. */
export async function outcomeOf(reported: Promise<{ readonly report: string }>): Promise<string> {
  return reported.then(
    ({ report }) => report,
    () => "thrown",
  );
}
