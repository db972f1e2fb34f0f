/**
 * A TCP proxy on loopback between a client and a recipient: faults come from outside, on the wire, and no code under test
 * knows of them. The general mechanism is one rule, used once (`fault-rule.ts`); the helpers here are rules with names.
 */
import { connect, createServer } from "node:net";
import { FaultConnection } from "./fault-connection.ts";
import { ArmedFault, anything, type Fault, type FaultRule, type Hold, type Match } from "./fault-rule.ts";
import { type Listener, listenOnLoopback } from "./loopback.ts";

/** Which request is meant. Default: the next one, on any connection. */
export interface RequestChoice {
  readonly match?: Match;
}

/** Which reply is meant. */
export interface ReplyChoice {
  /** The request that it answers. Default: the next one. In a conversation (SMTP, Postgres) name it. */
  readonly to?: Match;
  /** How much of the reply is awaited from the recipient before the fault acts. Default: its first byte. */
  readonly after?: Match;
}

export interface FaultProxy extends Listener {
  /** Connections accepted from clients so far. */
  readonly connections: number;
  /** Faults armed that have not acted yet. */
  readonly remainingFaults: number;
  /** Arms any rule. The helpers below are all made of it. */
  arm(rule: FaultRule): Hold;
  /** Nothing of the request reaches the recipient; both ends are reset. */
  cutBeforeRequest(choice?: RequestChoice): Fault;
  /** The request is forwarded, the recipient answers, nothing of the answer reaches the client, whose end is reset. */
  cutReply(choice?: ReplyChoice): Fault;
  /** Cuts when the recipient says this, whatever it answers; what it said in earlier chunks has reached the client. */
  cutWhenRecipientSays(match: Match): Fault;
  /** The request waits in the proxy: sent as its sender sees it, unknown to the recipient. */
  holdRequest(choice?: RequestChoice): Hold;
  /** The recipient has answered, and the answer waits in the proxy. */
  holdReply(choice?: ReplyChoice): Hold;
}

/**
 * Starts a proxy to a recipient. A recipient that cannot be reached shows to the client as a reset.
 * @throws LedgerError `recipient_not_started`
 */
export async function startFaultProxy(options: {
  readonly target: { readonly host: string; readonly port: number };
}): Promise<FaultProxy> {
  const { host, port } = options.target;
  const faults = new Set<ArmedFault>();
  const open = new Set<FaultConnection>();
  let connections = 0;
  const server = createServer({ allowHalfOpen: true }, (client) => {
    connections += 1;
    const recipient = connect({ host, port, allowHalfOpen: true });
    const connection = new FaultConnection(client, recipient, faults);
    open.add(connection);
    let sockets = 2;
    const closed = () => {
      sockets -= 1;
      if (sockets === 0) open.delete(connection);
    };
    client.once("close", closed);
    recipient.once("close", closed);
  });
  const listener = await listenOnLoopback(server);

  const arm = (rule: FaultRule): Hold => {
    for (const fault of faults) if (!fault.remaining) faults.delete(fault);
    const fault = new ArmedFault(rule);
    faults.add(fault);
    return fault;
  };
  const request = (action: FaultRule["action"], { match = anything }: RequestChoice = {}) =>
    arm({ at: { direction: "to-recipient", match }, action });
  const reply = (action: FaultRule["action"], { to = anything, after = anything }: ReplyChoice = {}) =>
    arm({
      after: { direction: "to-recipient", match: to },
      at: { direction: "to-client", match: after },
      action,
    });

  return {
    host: listener.host,
    port: listener.port,
    get connections() {
      return connections;
    },
    get remainingFaults() {
      return [...faults].filter((fault) => fault.remaining).length;
    },
    arm,
    cutBeforeRequest: (choice) => request("cut", choice),
    cutReply: (choice) => reply("cut", choice),
    cutWhenRecipientSays: (match) => arm({ at: { direction: "to-client", match }, action: "cut" }),
    holdRequest: (choice) => request("hold", choice),
    holdReply: (choice) => reply("hold", choice),
    async stop() {
      for (const connection of open) connection.destroy();
      for (const fault of faults) if (fault.remaining) fault.abandon("left alone by a proxy that stopped");
      await listener.stop();
    },
  };
}
