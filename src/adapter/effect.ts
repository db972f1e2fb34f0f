/** An effect as its adapter gets it: read from exactly the stored bytes, never from what anybody remembers. */
import { readBinding } from "../core/binding.ts";
import type { BoundEffect } from "../core/operation.ts";

/** Reads binding and payload, as admission hashed them, into what `dispatch`, `reconcile` and `fence` are called with. */
export function boundEffect(
  effectId: string,
  key: string,
  attempt: string,
  body: { readonly bytes: string; readonly payload: string },
): BoundEffect<unknown> {
  const { account, target, precondition } = readBinding(body.bytes);
  return { id: effectId, key, attempt, account, target, precondition, payload: JSON.parse(body.payload) as unknown };
}
