/**
 * An SMTP server that answers each step with a given line, or resets there: the answers that no well-behaved server can be
 * made to give. It counts the messages that reached it whole; one without a line is none (with PIPELINING a client that was
 * refused every recipient ends a DATA that was let in all the same).
 */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";

/** A reply line, or what else happens at that step. */
export type Step = string | "reset";

export interface SmtpScript {
  readonly greeting?: Step;
  readonly mail?: Step;
  readonly rcpt?: Step;
  readonly data?: Step;
  /** After the final dot. */
  readonly message?: Step;
  readonly pipelining?: boolean;
}

export async function startSmtpScript(script: SmtpScript) {
  const sockets = new Set<Socket>();
  let messages = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => undefined); // a client that goes away
    converse(socket, script, () => {
      messages += 1;
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a TCP listener has a port");
  return {
    url: `smtp://127.0.0.1:${address.port}`,
    get messages() {
      return messages;
    },
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

function converse(socket: Socket, script: SmtpScript, received: () => void): void {
  const say = (step: Step): void => {
    if (step === "reset") socket.resetAndDestroy();
    else socket.write(`${step}\r\n`);
  };
  let inMessage = false;
  let messageLines = 0;
  let rest = "";
  say(script.greeting ?? "220 script");
  socket.setEncoding("latin1").on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\r\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (inMessage) {
        if (line !== ".") {
          messageLines += 1;
          continue;
        }
        inMessage = false;
        if (messageLines > 0) received();
        say(script.message ?? "250 queued");
        continue;
      }
      const command = line.slice(0, 4).toUpperCase();
      if (command === "EHLO") say(script.pipelining ? "250-script\r\n250 PIPELINING" : "250 script");
      else if (command === "MAIL") say(script.mail ?? "250 ok");
      else if (command === "RCPT") say(script.rcpt ?? "250 ok");
      else if (command === "DATA") {
        const step = script.data ?? "354 go on";
        inMessage = step.startsWith("354");
        say(step);
      } else say("502 not here");
    }
  });
}
