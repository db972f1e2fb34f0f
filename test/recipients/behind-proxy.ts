import { createServer, type Socket } from "node:net";
import { after } from "node:test";
import { type FaultProxy, startFaultProxy } from "../../src/demo/recipients/fault-proxy.ts";
import { type Listener, listenOnLoopback } from "../../src/demo/recipients/loopback.ts";
import { startWebhookReceiver } from "../../src/demo/recipients/webhook.ts";

export const started: { stop(): Promise<void> }[] = [];
after(() => Promise.all(started.map((each) => each.stop())));

export async function webhookBehindProxy() {
  const webhook = await startWebhookReceiver();
  const proxy = await startFaultProxy({ target: webhook });
  started.push(webhook, proxy);
  const url = `http://127.0.0.1:${proxy.port}/hook`;
  const post = (body = "{}", signal?: AbortSignal) => fetch(url, { method: "POST", body, signal: signal ?? null });
  return { webhook, proxy, url, post };
}

interface Conversation extends Listener {
  /** The lines that arrived whole. */
  readonly lines: readonly string[];
  /** How each connection ended, as the recipient saw it. */
  readonly ends: readonly string[];
  readonly sockets: readonly Socket[];
}

/** A recipient that greets and answers each line with `ok LINE`, as SMTP and Postgres converse. */
export async function startConversation(): Promise<Conversation & { proxy: FaultProxy }> {
  const lines: string[] = [];
  const ends: string[] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    let rest = "";
    socket.write("hello\n");
    socket.on("data", (chunk) => {
      const parts = `${rest}${chunk.toString("latin1")}`.split("\n");
      rest = parts.pop() ?? "";
      for (const line of parts) {
        lines.push(line);
        socket.write(`ok ${line}\n`);
      }
    });
    socket.once("end", () => ends.push("end"));
    socket.once("error", (error: NodeJS.ErrnoException) => ends.push(error.code ?? error.message));
  });
  const listener = await listenOnLoopback(server);
  const proxy = await startFaultProxy({ target: listener });
  started.push(listener, proxy);
  return { ...listener, lines, ends, sockets, proxy };
}
