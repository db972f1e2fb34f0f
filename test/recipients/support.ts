/** What the recipient tests share: waiting for a condition, HTTP clients and what they say of an error, plain bytes. */
import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";

/** The code that a lost connection shows to Node clients. */
export const RESET = "ECONNRESET";

/** The code of the network error that fetch rejected with (its cause's, or that one's first cause's). */
export async function fetchErrorCode(response: Promise<Response>): Promise<string> {
  try {
    await response.then((answered) => answered.arrayBuffer());
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    if (typeof cause === "object" && cause !== null && "code" in cause) return String(cause.code);
    return `no code: ${String(error)}`;
  }
  return "no error";
}

/** A client of plain bytes that keeps what it received. */
export interface PlainClient {
  readonly socket: Socket;
  received(): string;
  /** The error's code, or `closed` for an orderly end. */
  readonly ended: Promise<string>;
}

export async function connectPlain(port: number): Promise<PlainClient> {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  const chunks: Buffer[] = [];
  socket.on("data", (chunk) => chunks.push(chunk));
  const ended = new Promise<string>((resolve) => {
    socket.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    socket.once("close", () => resolve("closed"));
  });
  await once(socket, "connect");
  return { socket, received: () => Buffer.concat(chunks).toString("latin1"), ended };
}

/** An HTTP client that has one connection and keeps it: fetch may open a second one whenever it likes. */
export function keepAliveClient(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  return {
    /** Resolves to the body. */
    async post(body: string): Promise<string> {
      const sending = request(url, { method: "POST", agent, headers: { "Content-Length": Buffer.byteLength(body) } });
      sending.end(body);
      const [response] = await once(sending, "response");
      let text = "";
      for await (const chunk of response) text += String(chunk);
      return text;
    },
    close: () => agent.destroy(),
  };
}
