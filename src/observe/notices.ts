/**
 * An inbox that is watched: notices are handed to the application inside a transaction of its own, one a batch, as soon as
 * they are there. It takes them and calls a handler; it never decides what they mean, and it keeps nothing.
 */
import type pg from "pg";
import type { State } from "../core/state.ts";
import { describeThrown } from "../core/text.ts";
import { openClient, wordConnectionError } from "../store/connection.ts";
import { listenForNotices, NOTICES_CHANNEL, type NoticeRow, takeNotices } from "../store/notices.ts";
import type { LogLine } from "../store/queue.ts";
import { commitOnClient, lookAndRollBack } from "../store/transaction.ts";

/** Where an effect stands, as of when it was taken. Of two about one effect the one with the higher `seq` is the newer. */
export interface Notice {
  readonly effectId: string;
  readonly seq: number;
  readonly name: string | null;
  readonly operation: string;
  readonly state: State;
  readonly unresolved: boolean;
  readonly waitingFor: string | null;
  readonly resolution: "evidence" | "reached" | "risk_accepted" | null;
  /** The recipient's own id. */
  readonly reference: string | null;
  /** When the newest of what it is about was recorded. */
  readonly at: Date;
}

/** The connection that a batch's transaction is open on. It is not the handler's to commit, roll back or end. */
export interface NoticesClient {
  query<Row extends object = Record<string, unknown>>(
    text: string,
    values?: unknown[],
  ): Promise<{ rows: Row[]; rowCount: number | null }>;
}

/** What it writes by `client` stands together with the notices being gone. What it throws rolls both back. */
export type NoticesHandler = (notices: readonly Notice[], client: NoticesClient) => Promise<void> | void;

export interface NoticesOptions {
  /** Effects in a batch at most, 1 to 1000. Default 100. */
  readonly max?: number;
  readonly log?: LogLine;
}

/** An inbox that is watched until it is stopped. */
export interface Inbox {
  /** Waits for the batch under way and closes its connection. May be called again. */
  stop(): Promise<void>;
  /** Settles when it has stopped. */
  readonly ended: Promise<void>;
}

/** Where nobody is heard (behind a pooler) or a consumer died with notices in its hands, it looks again after so long. */
const LOOK_AGAIN_MS = 2_000;

/** After a fault it waits, twice as long each time, from the first to the last of these. */
const BACKOFF_MS = { first: 100, last: 30_000 } as const;

/**
 * Watches an inbox.
 * @throws LedgerError what the first look says: 22023 for a name that is none, 42501 where this login may not, a connection's.
 */
export async function openInbox(
  connectionString: string,
  inbox: string,
  handler: NoticesHandler,
  { max = 100, log = () => {} }: NoticesOptions,
): Promise<Inbox> {
  const bell = new Bell();
  const first = await connect(connectionString, inbox, bell);
  try {
    await lookAndRollBack(first, (client) => takeNotices(client, inbox, max));
  } catch (error) {
    await first.end();
    throw wordConnectionError(error);
  }
  let stopping = false;
  let size = max;
  let about = inbox;

  /** One batch: taken, handed over and committed together. Returns how many. */
  const handOver = (client: pg.Client) =>
    commitOnClient(client, async () => {
      const rows = await takeNotices(client, inbox, size);
      if (rows.length === 1) about = `${inbox}, with effect ${rows[0]?.effect_id},`;
      if (rows.length > 0) await handler(rows.map(noticeOf), client);
      return rows.length;
    });
  const watch = async () => {
    let client: pg.Client | null = first;
    let failures = 0;
    while (!stopping) {
      bell.listen();
      try {
        client ??= await connect(connectionString, inbox, bell);
        about = inbox;
        const handed = await handOver(client);
        failures = 0;
        size = Math.min(max, size * 2);
        if (handed === 0) await bell.rings(LOOK_AGAIN_MS);
      } catch (error) {
        failures += 1;
        size = 1; // so that the log names the one that cannot be handed over, and those before it are
        const backoff = Math.min(BACKOFF_MS.last, BACKOFF_MS.first * 2 ** (failures - 1));
        log("warning", `the inbox ${about} is looked at again in ${backoff} ms: ${describeThrown(error)}`);
        await client?.end().catch(() => {}); // it may be what failed; the next look has a fresh one
        client = null;
        await bell.stops(backoff);
      }
    }
    await client?.end().catch(() => {}); // nothing is open on it
  };
  const ended = watch();
  return {
    stop() {
      stopping = true;
      bell.stop();
      return ended;
    },
    ended,
  };
}

function noticeOf(row: NoticeRow): Notice {
  const { effect_id, waiting_for, ...rest } = row;
  return { ...rest, effectId: effect_id, waitingFor: waiting_for };
}

/** As the application's own connection would be: its statements run on it. */
async function connect(connectionString: string, inbox: string, bell: Bell): Promise<pg.Client> {
  const client = await openClient(connectionString, `pg-effects inbox ${inbox}`, { driverTypes: true });
  client.on("notification", ({ channel, payload }) => {
    if (channel === NOTICES_CHANNEL && payload === inbox) bell.ring();
  });
  client.on("end", () => bell.ring()); // cut while nothing was asked: the next look finds that out
  await listenForNotices(client);
  return client;
}

/** What a waiting watcher is woken by. A ring since the last `listen` counts. */
class Bell {
  #rung = false;
  #stopped = false;
  #wake = () => {};

  listen(): void {
    this.#rung = false;
  }

  ring(): void {
    this.#rung = true;
    if (!this.#stopped) this.#wake();
  }

  stop(): void {
    this.#stopped = true;
    this.#wake();
  }

  /** Waits for a ring, for the end, or for so long. */
  async rings(ms: number): Promise<void> {
    if (!this.#rung) await this.#wait(ms);
  }

  /** Waits for the end, or for so long; rings change nothing. */
  async stops(ms: number): Promise<void> {
    const until = performance.now() + ms;
    for (let left = ms; left > 0 && !this.#stopped; left = until - performance.now()) await this.#wait(left);
  }

  async #wait(ms: number): Promise<void> {
    if (this.#stopped) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    this.#wake = resolve;
    await promise;
    clearTimeout(timer);
    this.#wake = () => {};
  }
}
