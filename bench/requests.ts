/** Requests: effects asked for one a transaction, beside many in one call. No worker runs. */
import pg from "pg";
import { openLedger } from "../src/index.ts";
import { migrate } from "../src/store/migrate.ts";
import { withDatabase } from "./database.ts";
import { noop } from "./effects.ts";

/** Before the clock starts, so that connections, plans and pages are warm. */
const WARM_SHARE = 0.1;

/** Requests a second, named, as services ask: by `callers` connections at once, each call a transaction of `batch` requests. */
export function measureRequests(options: {
  readonly connectionString: string;
  readonly count: number;
  readonly callers: number;
  readonly batch: number;
}): Promise<number> {
  const { callers, batch } = options;
  return withDatabase(options.connectionString, async (connectionString) => {
    await migrate({ connectionString, ledger: "bench" });
    const ledger = await openLedger({ connectionString });
    const registering = await ledger.work({ operations: [noop] });
    await registering.stop();
    const client = new pg.Pool({ connectionString, max: callers });
    client.on("error", () => {}); // the database goes while the last of them close

    const ask = async (name: string, count: number) => {
      let next = 0;
      const caller = async () => {
        while (next < count) {
          const from = next;
          next += batch;
          if (batch === 1) {
            await ledger.enqueue(noop, { n: from }, { client, name: `${name}/${from}` });
            continue;
          }
          const numbers = Array.from({ length: Math.min(batch, count - from) }, (_, place) => from + place);
          const requests = numbers.map((n) => ({ input: { n }, name: `${name}/${n}` }));
          await ledger.enqueueMany(noop, requests, { client });
        }
      };
      await Promise.all(Array.from({ length: callers }, caller));
    };
    await ask("warm", options.count * WARM_SHARE);
    const began = performance.now();
    await ask("measured", options.count);
    const seconds = (performance.now() - began) / 1_000;
    await client.end();
    await ledger.close();
    return options.count / seconds;
  });
}
