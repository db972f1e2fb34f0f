/** Loopback ports: one that nobody uses at this moment. It may be lost before it is used; whoever uses it must look. */
import { once } from "node:events";
import { createServer } from "node:net";
import { nullIf } from "./files.ts";

/** A loopback port that was free a moment ago. */
export async function freePort(): Promise<number> {
  return listenOnce(0);
}

/** False while another program listens on it. */
export async function portIsFree(port: number): Promise<boolean> {
  return (await nullIf(["EADDRINUSE"], listenOnce(port))) !== null;
}

async function listenOnce(wanted: number): Promise<number> {
  const server = createServer().listen(wanted, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("a TCP listener has no port");
  return address.port;
}
