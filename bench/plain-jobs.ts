/** graphile-worker's own no-op jobs, as the yardstick. */
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { withDatabase } from "./database.ts";

const silent = new Logger(() => () => {});

/** Jobs a second over a queue that is full before the clock starts. */
export function measurePlainJobs(options: {
  readonly connectionString: string;
  readonly count: number;
  readonly concurrency: number;
  /** With the local queue and batched completion that pg-effects uses too; else its defaults. */
  readonly batched: boolean;
}): Promise<number> {
  return withDatabase(options.connectionString, async (connectionString) => {
    const utils = await makeWorkerUtils({ connectionString, logger: silent });
    await utils.migrate();
    await utils.release();
    const pool = new pg.Pool({ connectionString, max: 10 });
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    await pool.query(
      "select graphile_worker.add_job('noop', json_build_object('n', n)) from generate_series(1, $1::int) n",
      [options.count],
    );
    await pool.query("vacuum analyze");
    let done = 0;
    const finished = Promise.withResolvers<void>();
    const began = performance.now();
    const runner = await run({
      pgPool: pool,
      logger: silent,
      noHandleSignals: true,
      taskList: {
        noop: async () => {
          done += 1;
          if (done === options.count) finished.resolve();
        },
      },
      preset: {
        worker: {
          concurrentJobs: options.concurrency,
          maxPoolSize: options.concurrency + 2,
          ...(options.batched ? { localQueue: { size: 512 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {}),
        },
      },
    });
    await finished.promise;
    const seconds = (performance.now() - began) / 1_000;
    await runner.stop();
    await pool.end();
    return options.count / seconds;
  });
}
