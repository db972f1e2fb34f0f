/**
 * The answers that a webhook receiver can be told to give (`webhook.ts`), among them those that break careless clients.
 */

export type WebhookAnswer =
  | {
      readonly kind: "respond";
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: Buffer;
      /** The head announces the whole body; after this many bytes of it the connection is reset. */
      readonly cutAfterBytes?: number;
    }
  /** The request is read to its end, then the connection is reset. */
  | { readonly kind: "reset" }
  /** The request is read to its end, and nothing is ever said. */
  | { readonly kind: "silence" };

/** Four bytes in UTF-8: two of them are half a character. */
const FOUR_BYTE_CHARACTER = "\u{1F4B3}";

/** Any status with any body and headers. */
export function respond(
  status: number,
  body: string | Buffer = "",
  headers: Readonly<Record<string, string>> = {},
): WebhookAnswer {
  return { kind: "respond", status, headers, body: Buffer.from(body) };
}

/** A value as JSON. */
export function respondJson(status: number, value: unknown): WebhookAnswer {
  return respond(status, JSON.stringify(value), { "Content-Type": "application/json" });
}

/** An HTML page, as a proxy or a login form in the way answers. */
export function respondHtml(status = 200): WebhookAnswer {
  return respond(status, "<!doctype html><title>Welcome</title><p>Please sign in.", { "Content-Type": "text/html" });
}

/** A redirect to another listener; the effect must not follow it. */
export function redirect(status: 301 | 302 | 307 | 308, location: string): WebhookAnswer {
  return respond(status, "", { Location: location });
}

/** A body with U+0000, which Postgres' text refuses. */
export function respondWithNul(status = 500): WebhookAnswer {
  return respond(status, "internal\u0000error", { "Content-Type": "text/plain; charset=utf-8" });
}

/** A complete body whose last character is only half there. */
export function respondWithHalfCharacter(status = 500): WebhookAnswer {
  const body = Buffer.from(`internal error ${FOUR_BYTE_CHARACTER}`);
  return respond(status, body.subarray(0, -2), { "Content-Type": "text/plain; charset=utf-8" });
}

/** The connection is reset in the middle of a character. */
export function cutInsideCharacter(status = 200): WebhookAnswer {
  const start = Buffer.from("accepted ");
  const headers = { "Content-Type": "text/plain; charset=utf-8" };
  const body = Buffer.from(`accepted ${FOUR_BYTE_CHARACTER} and more`);
  return { kind: "respond", status, headers, body, cutAfterBytes: start.length + 2 };
}

export function resetAfterReading(): WebhookAnswer {
  return { kind: "reset" };
}

export function neverAnswer(): WebhookAnswer {
  return { kind: "silence" };
}
