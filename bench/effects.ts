/** Effects end to end: job, prepare, admission, dispatch of a no-op adapter, settlement, job done. */
import pg from "pg";
import { z } from "zod";
import { accepted, defineOperation, openLedger } from "../src/index.ts";
import { migrate } from "../src/store/migrate.ts";
import { withDatabase } from "./database.ts";

/** An operation that does nothing, at a cost. */
export const noop = defineOperation({
  name: "noop",
  version: 1,
  input: z.strictObject({ n: z.int() }),
  proof: z.strictObject({ n: z.int() }),
  contract: { cost: () => ({ calls: 1n }) },
  prepare: ({ n }) => ({ target: `noop/${n}`, payload: { n } }),
  dispatch: ({ payload }) => accepted({ n: payload.n }),
});

/** Effects a second over a queue that is full before the clock starts, up to the last settled outcome. */
export function measureEffects(options: {
  readonly connectionString: string;
  readonly count: number;
  readonly concurrency: number;
  /** How many tasks, each with a budget, the effects are spread over. */
  readonly tasks: number;
}): Promise<number> {
  return withDatabase(options.connectionString, async (connectionString) => {
    await migrate({ connectionString, ledger: "bench" });
    const ledger = await openLedger({ connectionString });
    const pool = new pg.Pool({ connectionString, max: 2 });
    const registering = await ledger.work({ operations: [noop] });
    await registering.stop();
    await pool.query(
      `select effects.open_task('task/' || n, budgets => '[{"unit": "calls", "limit": "1000000"}]')
         from generate_series(1, $1::int) n`,
      [options.tasks],
    );
    await pool.query(
      `select effects.enqueue('noop', json_build_object('n', n), task => 'task/' || (1 + n % $2::int))
         from generate_series(1, $1::int) n`,
      [options.count, options.tasks],
    );
    await pool.query("vacuum analyze");
    const began = performance.now();
    const worker = await ledger.work({ operations: [noop], concurrency: options.concurrency });
    await untilSettled(pool, options.count);
    const seconds = (performance.now() - began) / 1_000;
    await worker.stop();
    const { rows } = await pool.query("select * from audit.violations");
    if (rows.length > 0) throw new Error(`the ledger is broken: ${JSON.stringify(rows[0])}`);
    await pool.end();
    await ledger.close();
    return options.count / seconds;
  });
}

/** The look costs an index-only count of outcomes; every 100 ms it is no load. */
async function untilSettled(pool: pg.Pool, count: number): Promise<void> {
  for (;;) {
    const { rows } = await pool.query<{ settled: string }>("select count(*) as settled from effects_ledger.outcome");
    if (Number(rows[0]?.settled) >= count) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
