/**
 * The little that the HTTP recipients share: a whole body or none, and a JSON answer. It decides nothing about a request.
 */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";

/** More than any request of ours needs; what is larger is refused, not kept. */
export const BODY_BYTES_MAX = 1_048_576;

/**
 * The whole body. `cut`: the client went away before it was complete, so no request arrived. `too_large`: beyond
 * `BODY_BYTES_MAX`.
 */
export async function readBody(request: IncomingMessage): Promise<Buffer | "cut" | "too_large"> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes <= BODY_BYTES_MAX) chunks.push(chunk);
    }
  } catch (error) {
    if (!request.complete) return "cut";
    throw error;
  }
  return bytes > BODY_BYTES_MAX ? "too_large" : Buffer.concat(chunks);
}

/** Answers with JSON. A client that is gone is no fault of the recipient: the answer is then nobody's. */
export function answerJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: OutgoingHttpHeaders = {},
): void {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(status, { "Content-Type": "application/json", "Content-Length": body.length, ...headers });
  response.end(body);
}
