/**
 * One connection through the fault proxy: bytes in both directions, in order, each chunk shown to the armed faults before
 * it passes. It must never change, reorder or invent a byte, and passes on an end or a reset as what it was.
 *
 * There is no back-pressure: conversations here are small, and what is held is kept in memory.
 */
import type { Socket } from "node:net";
import type { ArmedFault, Direction, Withholding } from "./fault-rule.ts";

/** A match sees at most this much of a turn: enough for a header, bounded for a large body. */
const TURN_BYTES_MAX = 65_536;

type Item = Buffer | "end" | "reset";

interface Flow {
  readonly direction: Direction;
  readonly sink: Socket;
  /** Arrived, not looked at yet: behind held bytes. */
  waiting: Item[];
  /** Looked at, kept back by a fault. */
  withheld: Item[];
  held: boolean;
  turn: Buffer;
  /** A fault has used this turn; a second one waits for the next request. */
  turnUsed: boolean;
}

export class FaultConnection {
  readonly #client: Socket;
  readonly #recipient: Socket;
  readonly #faults: ReadonlySet<ArmedFault>;
  readonly #toRecipient: Flow;
  readonly #toClient: Flow;
  /** The fault whose `after` has passed here. */
  #begun: ArmedFault | null = null;
  /** After a cut nothing passes any more, in no direction. */
  #cut = false;

  /** Both sockets must allow half-open connections. `faults` is live: what is armed later counts here too. */
  constructor(client: Socket, recipient: Socket, faults: ReadonlySet<ArmedFault>) {
    this.#client = client;
    this.#recipient = recipient;
    this.#faults = faults;
    this.#toRecipient = newFlow("to-recipient", recipient);
    this.#toClient = newFlow("to-client", client);
    this.#listen(client, this.#toRecipient);
    this.#listen(recipient, this.#toClient);
  }

  destroy(): void {
    this.#client.destroy();
    this.#recipient.destroy();
  }

  #listen(source: Socket, flow: Flow): void {
    source.setNoDelay(true);
    source.on("data", (chunk) => this.#arrived(flow, chunk));
    source.on("end", () => this.#arrived(flow, "end"));
    // Whatever broke this side (reset, refused), the other side sees a reset: it cannot tell more from the wire either.
    source.on("error", () => this.#arrived(flow, "reset"));
  }

  #arrived(flow: Flow, item: Item): void {
    if (this.#cut) return;
    flow.waiting.push(item);
    this.#advance(flow);
  }

  #advance(flow: Flow): void {
    while (!flow.held && !this.#cut) {
      const item = flow.waiting.shift();
      if (item === undefined) return;
      if (typeof item !== "string") this.#look(flow, item);
      else if (this.#isWithheld(flow)) flow.withheld.push(item);
      else send(flow.sink, item);
    }
  }

  #isWithheld(flow: Flow): boolean {
    return this.#begun?.rule.at.direction === flow.direction;
  }

  /** Shows a chunk to the faults and then passes it on, keeps it back, or cuts. */
  #look(flow: Flow, chunk: Buffer): void {
    const other = flow === this.#toClient ? this.#toRecipient : this.#toClient;
    other.turn = Buffer.alloc(0);
    other.turnUsed = false;
    flow.turn = Buffer.concat([flow.turn, chunk]).subarray(-TURN_BYTES_MAX);

    if (this.#begun !== null && this.#isWithheld(flow)) {
      flow.withheld.push(chunk);
      const withheld = Buffer.concat(flow.withheld.filter((item) => typeof item !== "string"));
      if (this.#begun.rule.at.match(withheld)) this.#act(this.#begun, flow);
      return;
    }
    const fault = this.#begun === null && !flow.turnUsed ? this.#firstMatch(flow) : null;
    if (fault === null) {
      send(flow.sink, chunk);
      return;
    }
    flow.turnUsed = true;
    if (fault.rule.after !== undefined) {
      this.#begun = fault;
      fault.begin(this.#withholding(fault, fault.rule.at.direction === flow.direction ? flow : other));
      send(flow.sink, chunk);
      return;
    }
    flow.withheld.push(chunk);
    this.#act(fault, flow);
  }

  /** The first armed fault that begins with this turn. Those that only tell are told on the way. */
  #firstMatch(flow: Flow): ArmedFault | null {
    for (const fault of this.#faults) {
      const { after, at, action } = fault.rule;
      const first = after ?? at;
      if (!fault.armed || first.direction !== flow.direction || !first.match(flow.turn)) continue;
      if (after !== undefined || action !== "pass") return fault;
      fault.end();
    }
    return null;
  }

  #act(fault: ArmedFault, flow: Flow): void {
    const withholding = this.#withholding(fault, flow);
    if (fault.rule.action === "hold") {
      flow.held = true;
      this.#begun = null;
      fault.hold(withholding);
      return;
    }
    if (fault.rule.action === "cut") withholding.cut();
    else withholding.letPass();
    fault.end();
  }

  #withholding(fault: ArmedFault, flow: Flow): Withholding {
    return {
      letPass: () => {
        const items = flow.withheld;
        flow.withheld = [];
        flow.held = false;
        if (this.#begun === fault) this.#begun = null;
        if (this.#cut) return;
        for (const item of items) send(flow.sink, item);
        this.#advance(flow);
      },
      cut: () => {
        this.#cut = true;
        for (const each of [this.#toRecipient, this.#toClient]) {
          each.waiting = [];
          each.withheld = [];
        }
        this.#client.resetAndDestroy();
        if (flow.direction === "to-recipient") this.#recipient.resetAndDestroy();
        else this.#recipient.end();
      },
    };
  }
}

function newFlow(direction: Direction, sink: Socket): Flow {
  return { direction, sink, waiting: [], withheld: [], held: false, turn: Buffer.alloc(0), turnUsed: false };
}

function send(sink: Socket, item: Item): void {
  if (sink.destroyed) return;
  if (item === "end") sink.end();
  else if (!sink.writable) sink.resetAndDestroy();
  // Behind what is being written, or the reset would overtake it.
  else if (item === "reset") sink.write("", () => sink.resetAndDestroy());
  else sink.write(item);
}
