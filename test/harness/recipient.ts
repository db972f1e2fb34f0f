/**
 * A recipient that counts what it really received, behind a proxy that can hold or cut what passes. Paths tell one effect's
 * requests from another's.
 */

import { type FaultProxy, startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { contains, type Hold } from "../../src/demo/recipients/fault-rule.ts";
import { startWebhookReceiver, type WebhookReceiver } from "../../src/demo/recipients/webhook.ts";
import { respondJson } from "../../src/demo/recipients/webhook-answers.ts";
import type { TestLedger } from "./ledger.ts";

export interface CountingRecipient {
  readonly receiver: WebhookReceiver;
  readonly proxy: FaultProxy;
  /** The address of a path, through the proxy. */
  url(path: string): string;
  /** Requests that arrived whole at this path. */
  hits(path: string): number;
  /** The next request to this path is answered, and the answer waits in the proxy: the recipient has acted. */
  holdReply(path: string): Hold;
}

/** Starts one for a test file. It answers `{"receipt": "r1"}` until told otherwise. */
export async function startRecipient(test: TestLedger): Promise<CountingRecipient> {
  const receiver = await startWebhookReceiver();
  test.atEnd(() => receiver.stop());
  receiver.answerWith(respondJson(200, { receipt: "r1" }));
  const proxy = await startFaultProxy({ target: receiver });
  test.atEnd(() => proxy.stop());
  return {
    receiver,
    proxy,
    url: (path) => `http://${proxy.host}:${proxy.port}/${path}`,
    hits: (path) => receiver.requests.filter((request) => request.path === `/${path}`).length,
    holdReply: (path) => proxy.holdReply({ to: contains(` /${path} HTTP`) }),
  };
}
