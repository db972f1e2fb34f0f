/**
 * Listening on loopback, for every recipient and the fault proxy: an ephemeral port, and a stop that leaves nothing open.
 * It must never listen on another interface.
 */
import { once } from "node:events";
import type { Server, Socket } from "node:net";
import { LedgerError } from "../../core/error.ts";

export const LOOPBACK_HOST = "127.0.0.1";

/** Node fires a timer beyond this at once, so that a longer delay would be none. */
const TIMER_MS_MAX = 2_147_483_647;

/** What every start function here returns, besides what is its own. */
export interface Listener {
  readonly host: string;
  readonly port: number;
  /** Closes the listener and every socket at once, idle keep-alive ones too. Calling it again changes nothing. */
  stop(): Promise<void>;
}

/**
 * Listens on an ephemeral loopback port.
 * @throws LedgerError `recipient_not_started`
 */
export async function listenOnLoopback(server: Server): Promise<Listener> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  server.listen(0, LOOPBACK_HOST);
  try {
    await once(server, "listening");
  } catch (cause) {
    throw new LedgerError("recipient_not_started", "could not listen on loopback", {
      hint: "the cause says why the system refused a loopback port",
      cause,
    });
  }
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a TCP listener has an address with a port");
  let stopped: Promise<void> | undefined;
  return {
    host: LOOPBACK_HOST,
    port: address.port,
    stop() {
      stopped ??= new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      });
      return stopped;
    },
  };
}

/**
 * A delay in milliseconds that a timer keeps.
 * @throws LedgerError `delay_invalid`
 */
export function checkedDelayMs(name: string, delayMs: number): number {
  if (Number.isInteger(delayMs) && delayMs >= 0 && delayMs <= TIMER_MS_MAX) return delayMs;
  throw new LedgerError("delay_invalid", `${name} ${String(delayMs)} is refused`, {
    hint: `an integer of milliseconds from 0 to ${TIMER_MS_MAX}`,
  });
}
