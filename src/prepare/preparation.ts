/**
 * What an adapter's `prepare` answered, looked at before anything of it is bound: that it is an answer at all, that its
 * payload is within its bound, and that no declared secret stands in it. It must never be kept as it came.
 */
import { canonicalText } from "../core/canonical.ts";
import { LedgerError } from "../core/error.ts";
import type { Invalid, Preparation } from "../core/operation.ts";
import type { Json, Secrets } from "../core/secret.ts";

/**
 * The largest payload in canonical bytes, inclusive: 1 MiB. The design bounds it by a store's quota only; but each payload
 * is carried through the admission's transaction, with those of up to 199 neighbours.
 */
export const PAYLOAD_BYTES_MAX = 1_048_576;

const ANSWER_HINT = "return { target, payload } and what else is to be bound, or invalid(reason)";

/**
 * Reads the answer.
 * @throws LedgerError `preparation_invalid` for what is no answer, `payload_too_large`, `secret_bound`, or
 *   `input_unfaithful` for what JSON cannot carry.
 */
export function readPreparation(answer: unknown, secrets: Secrets): Preparation<unknown> | Invalid {
  if (typeof answer !== "object" || answer === null || Array.isArray(answer)) {
    throw invalidAnswer(
      `prepare returned ${answer === null ? "null" : Array.isArray(answer) ? "an array" : typeof answer}`,
    );
  }
  if ("invalid" in answer) return answer as Invalid;
  // Read once, and copied: what was looked at is what is bound, whatever the answer's own properties do.
  const { target, account, payload, precondition, cost, preview } = answer as Partial<Preparation<unknown>>;
  if (typeof target !== "string" || target === "") throw invalidAnswer("prepare named no target");
  if (account !== undefined && account !== null && typeof account !== "string") {
    throw invalidAnswer(`prepare's account is ${typeof account}, not text`);
  }
  if (preview !== undefined && typeof preview !== "string") {
    throw invalidAnswer(`prepare's preview is ${typeof preview}, not text`);
  }
  const payloadText = canonicalText(payload);
  const bytes = Buffer.byteLength(payloadText, "utf8");
  if (bytes > PAYLOAD_BYTES_MAX) {
    throw new LedgerError(
      "payload_too_large",
      `the payload has ${bytes} canonical bytes, at most ${PAYLOAD_BYTES_MAX} are bound`,
      { hint: "keep large content elsewhere, and bind its reference and digest" },
    );
  }
  const bound = {
    target,
    account: account ?? null,
    payload: JSON.parse(payloadText) as Json,
    precondition: JSON.parse(canonicalText(precondition ?? null)) as Json,
    preview: preview ?? null,
  };
  refuseSecrets(secrets, bound);
  return {
    target,
    payload: bound.payload,
    precondition: bound.precondition,
    ...(bound.account === null ? {} : { account: bound.account }),
    ...(bound.preview === null ? {} : { preview: bound.preview }),
    ...(cost === undefined ? {} : { cost }),
  };
}

/** A binding is kept, shown to people and sent: a secret must not get into it. @throws LedgerError `secret_bound` */
export function refuseSecrets(secrets: Secrets, bound: Json): void {
  const found = secrets.findIn(bound);
  if (!found) return;
  throw new LedgerError("secret_bound", `${found.path} holds the value of the secret ${found.name}`, {
    hint: "leave it out, and read it in dispatch: context.secret(name)",
  });
}

function invalidAnswer(message: string): LedgerError {
  return new LedgerError("preparation_invalid", message, { hint: ANSWER_HINT });
}
