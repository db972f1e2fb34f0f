/**
 * What a fault on the wire is: one rule, used once. A rule names the bytes at which it acts and what happens to them; it
 * never changes a byte. The connections (`fault-connection.ts`) carry it out.
 */
import { LedgerError } from "../../core/error.ts";

export type Direction = "to-recipient" | "to-client";

/**
 * Looks at the bytes of one turn: everything that one side has sent since the other side last spoke (the last 64 KiB of
 * it). It is asked again at every chunk, so bytes that arrive in pieces and later requests on a kept-alive connection are
 * seen. A conversation in which both sides speak at once has no turns.
 */
export type Match = (turn: Buffer) => boolean;

export interface Trigger {
  readonly direction: Direction;
  readonly match: Match;
}

/** One fault. Armed on all connections; the first that matches uses it up. */
export interface FaultRule {
  /**
   * Bytes that must have passed first, on the same connection. From there on everything in the direction of `at` is
   * withheld, so that the peer sees nothing at all of what `at` waits for. Without it, what came before the match has passed.
   */
  readonly after?: Trigger;
  readonly at: Trigger;
  /**
   * `pass`: nothing but telling. `hold`: these bytes, and all behind them, wait for the caller. `cut`: they are dropped.
   * A cut towards the recipient resets both ends. One towards the client resets the client's end; the recipient sees an
   * orderly end, so that it finishes what it began.
   */
  readonly action: "pass" | "hold" | "cut";
}

export interface Fault {
  /** Resolves when the rule has acted. Rejects (`fault_not_reached`) when it was disarmed or the proxy stopped before. */
  readonly reached: Promise<void>;
}

export interface Hold extends Fault {
  /**
   * Lets the held bytes pass, even if their sender is gone by now: a late request. Before `reached` it disarms the rule;
   * when nothing is held any more it changes nothing.
   */
  release(): void;
  /** Cuts instead. @throws LedgerError `fault_not_held` when nothing is held. */
  drop(): void;
}

/** Matches any bytes. */
export const anything: Match = () => true;

/** Matches a text (as it stands) or a pattern; bytes are read as Latin-1, so that no byte is lost. */
export function contains(wanted: string | RegExp): Match {
  return (turn) => {
    const text = turn.toString("latin1");
    return typeof wanted === "string" ? text.includes(wanted) : wanted.test(text);
  };
}

/** What a connection lets a fault do with the bytes that it withholds. */
export interface Withholding {
  letPass(): void;
  cut(): void;
}

/** A rule and how far it has come: armed, begun (`after` has passed), held, ended. Only connections move it on. */
export class ArmedFault implements Hold {
  readonly rule: FaultRule;
  #stage: "armed" | "begun" | "held" | "ended" = "armed";
  #withholding: Withholding | null = null;
  readonly #reached = Promise.withResolvers<void>();

  constructor(rule: FaultRule) {
    this.rule = rule;
    // A fault that nobody waits for may end unreached: that is not an unhandled error.
    this.#reached.promise.catch(() => undefined);
  }

  get reached(): Promise<void> {
    return this.#reached.promise;
  }

  get armed(): boolean {
    return this.#stage === "armed";
  }

  /** It has not acted yet. */
  get remaining(): boolean {
    return this.#stage === "armed" || this.#stage === "begun";
  }

  begin(withholding: Withholding): void {
    this.#stage = "begun";
    this.#withholding = withholding;
  }

  hold(withholding: Withholding): void {
    this.#stage = "held";
    this.#withholding = withholding;
    this.#reached.resolve();
  }

  end(): void {
    this.#stage = "ended";
    this.#withholding = null;
    this.#reached.resolve();
  }

  release(): void {
    const withholding = this.#withholding;
    if (this.remaining) this.abandon("disarmed");
    this.#stage = "ended";
    this.#withholding = null;
    withholding?.letPass();
  }

  drop(): void {
    if (this.#stage !== "held" || this.#withholding === null) {
      throw new LedgerError("fault_not_held", "there are no held bytes to drop", { hint: "wait for `reached`" });
    }
    const withholding = this.#withholding;
    this.end();
    withholding.cut();
  }

  /** It will never act: whoever waits for `reached` is told. */
  abandon(why: string): void {
    this.#reached.reject(
      new LedgerError("fault_not_reached", `the fault was ${why} before the bytes came that it waits for`, {
        hint: "look at the match: it sees the bytes of one turn in one direction",
      }),
    );
  }
}
