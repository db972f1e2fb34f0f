/**
 * An HTTP receiver on loopback that records every request and answers as it was told (`webhook-answers.ts`). It never
 * judges a request: any method, path and body is a hit.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { LedgerError } from "../../core/error.ts";
import { type Listener, listenOnLoopback } from "./loopback.ts";
import { readBody } from "./loopback-http.ts";
import { respondJson, type WebhookAnswer } from "./webhook-answers.ts";

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface WebhookReceiver extends Listener {
  readonly url: string;
  /** Requests that arrived whole, in order. */
  readonly requests: readonly ReceivedRequest[];
  /** How many. */
  readonly hits: number;
  /**
   * From the next request on, these answers in turn; the last one repeats. At the start: 200 `{"ok":true}`.
   * @throws LedgerError `answers_missing` for none
   */
  answerWith(...answers: readonly WebhookAnswer[]): void;
}

/** @throws LedgerError `recipient_not_started` */
export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const requests: ReceivedRequest[] = [];
  let script: WebhookAnswer[] = [respondJson(200, { ok: true })];
  const next = (): WebhookAnswer | undefined => (script.length > 1 ? script.shift() : script[0]);

  const server = createServer(async (request, response) => {
    const body = await readBody(request);
    if (body === "cut") return;
    if (body === "too_large") {
      response.writeHead(413).end();
      return;
    }
    requests.push({ method: request.method ?? "", path: request.url ?? "", headers: request.headers, body });
    const answer = next();
    if (answer !== undefined) give(response, answer);
  });
  const listener = await listenOnLoopback(server);

  return {
    host: listener.host,
    port: listener.port,
    url: `http://${listener.host}:${listener.port}`,
    requests,
    get hits() {
      return requests.length;
    },
    answerWith(...answers) {
      if (answers.length === 0) {
        throw new LedgerError("answers_missing", "a receiver needs an answer to give", {
          hint: "neverAnswer() says that it stays silent",
        });
      }
      script = [...answers];
    },
    stop: () => listener.stop(),
  };
}

function give(response: ServerResponse, answer: WebhookAnswer): void {
  if (answer.kind === "silence") return;
  if (answer.kind === "reset") {
    response.socket?.resetAndDestroy();
    return;
  }
  response.writeHead(answer.status, { ...answer.headers, "Content-Length": answer.body.length });
  if (answer.cutAfterBytes === undefined) {
    response.end(answer.body);
    return;
  }
  // The callback: the bytes have left this process, so that the reset does not overtake them.
  response.write(answer.body.subarray(0, answer.cutAfterBytes), () => response.socket?.resetAndDestroy());
}
