/**
 * What a process works with that runs inline effects: its connections, its name in the record, and what it remembers. It
 * holds no state of an effect: that is in the ledger.
 */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type pg from "pg";
import type { LogLine } from "../store/queue.ts";
import { Slots } from "./slots.ts";

export interface InlineHost {
  readonly pool: pg.Pool;
  readonly connectionString: string;
  readonly ledgerId: string;
  /** This process's name in the record, as a worker's is made. */
  readonly worker: string;
  readonly release: () => Promise<string>;
  readonly log: LogLine;
  /** As many as the pool has connections. */
  readonly connections: Slots;
  /** Intents that are written at once. */
  readonly intents: Slots;
  /** The newest intent that was confirmed to this process: where it is gone, a commit was lost (protocol, section 10). */
  remembered: string | null;
  /** True once the ledger is closed: nothing is asked any more. */
  stopping: boolean;
}

/** Intents at once are SERIALIZABLE transactions beside each other: more than two conflicted more than they gained. */
const INTENTS_AT_ONCE = 2;

/** Makes it. `release` is asked for once, at the first intent. */
export function openInlineHost(
  given: Pick<InlineHost, "pool" | "connectionString" | "ledgerId" | "release" | "log">,
): InlineHost {
  let release: Promise<string> | undefined;
  return {
    ...given,
    connections: new Slots(given.pool.options.max),
    intents: new Slots(INTENTS_AT_ONCE),
    worker: `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`,
    release() {
      release ??= given.release();
      return release;
    },
    remembered: null,
    stopping: false,
  };
}
