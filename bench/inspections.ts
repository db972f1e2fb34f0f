/**
 * Inspections of unresolved effects, end to end: job, row, lookup at the recipient, outcome and settlement. Beside them the
 * same lookups made bare, as many at once. The recipient is a table, asked by the effect's key on connections of its own.
 */
import pg from "pg";
import { z } from "zod";
import { absent, accepted, defineOperation, type Ledger, openLedger, unknown } from "../src/index.ts";
import { INSPECTIONS_AT_ONCE } from "../src/reconcile/reconcile.ts";
import { migrate } from "../src/store/migrate.ts";
import { withDatabase } from "./database.ts";

export interface InspectionRates {
  readonly inspected: number;
  /** The same lookups without a ledger. */
  readonly bare: number;
  /** How far the heap rose above where it stood, in MiB, while all of them were inspected. */
  readonly heapRiseMiB: number;
}

/** Beyond this for so many effects, something keeps them in memory one by one. */
const HEAP_RISE_MIB_MAX = 128;

/** Lookups a second, with the ledger and without. */
export function measureInspections(options: {
  readonly connectionString: string;
  readonly count: number;
}): Promise<InspectionRates> {
  return withDatabase(options.connectionString, async (connectionString) => {
    await migrate({ connectionString, ledger: "bench" });
    const pools = { looking: poolOf(connectionString, 2), recipient: poolOf(connectionString, INSPECTIONS_AT_ONCE) };
    const ledger = await openLedger({ connectionString });
    const lookUp = async (key: string): Promise<number | null> => {
      const { rows } = await pools.recipient.query<{ n: number }>({ name: "look", text: LOOK_UP, values: [key] });
      return rows[0]?.n ?? null;
    };
    const worker = await ledger.work({ operations: [lostOperation(lookUp)], concurrency: 256 });
    try {
      return await measure(ledger, pools.looking, options.count, lookUp);
    } finally {
      await worker.stop();
      await Promise.all([pools.looking.end(), pools.recipient.end(), ledger.close()]);
    }
  });
}

type LookUp = (key: string) => Promise<number | null>;

async function measure(ledger: Ledger, pool: pg.Pool, count: number, lookUp: LookUp): Promise<InspectionRates> {
  await pool.query(`select effects.open_task('asked', budgets => '[{"unit": "calls", "limit": "1000000"}]')`);
  await pool.query(
    "select effects.enqueue('lost', json_build_object('n', n), task => 'asked') from generate_series(1, $1::int) n",
    [count],
  );
  await until(pool, "select count(*) = $1 as there from audit.unresolved", [count]);
  await pool.query("create table booked as select key, row_number() over ()::int as n from audit.effects");
  await pool.query("alter table booked add primary key (key)");
  await pool.query("vacuum analyze");
  const { rows } = await pool.query<{ key: string }>("select key from booked");
  const keys = rows.map(({ key }) => key);

  const bareSeconds = await secondsOf(() => atOnce(keys, lookUp));
  const heap = watchHeap();
  const seconds = await secondsOf(async () => {
    const id = await ledger.reconcile({ operation: "lost", deadlineMs: 600_000 });
    // The run's own row: audit.reconciliations counts the whole scope at every look.
    const run = "effects_ledger.reconciliation_run where reconciliation_id = $1 and ended_at is not null";
    await until(pool, `select exists (select from ${run}) as there`, [id]);
  });
  const heapRiseMiB = heap.riseMiB();
  await check(pool, count, heapRiseMiB);
  return { inspected: count / seconds, bare: count / bareSeconds, heapRiseMiB };
}

/** Its dispatch loses every answer; a lookup then finds what the recipient has. */
function lostOperation(lookUp: LookUp) {
  return defineOperation({
    name: "lost",
    version: 1,
    input: z.strictObject({ n: z.int() }),
    proof: z.strictObject({ n: z.int() }),
    contract: { cost: () => ({ calls: 1n }) },
    prepare: ({ n }) => ({ target: `lost/${n}`, payload: { n } }),
    dispatch: () => unknown("the answer was lost"),
    reconcile: async ({ key }) => {
      const n = await lookUp(key);
      return n === null ? absent({ found: 0 }) : accepted({ n });
    },
  });
}

function poolOf(connectionString: string, max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString, max });
  pool.on("error", () => {}); // the query that runs next says so
  return pool;
}

const LOOK_UP = "select n from booked where key = $1";

async function check(pool: pg.Pool, count: number, heapRiseMiB: number): Promise<void> {
  const { rows } = await pool.query<{ recorded: string }>("select recorded from audit.reconciliations");
  if (Number(rows[0]?.recorded) !== count) throw new Error(`only ${rows[0]?.recorded} of ${count} were recorded`);
  const { rows: broken } = await pool.query("select * from audit.violations");
  if (broken.length > 0) throw new Error(`the ledger is broken: ${JSON.stringify(broken[0])}`);
  if (heapRiseMiB > HEAP_RISE_MIB_MAX) throw new Error(`the heap rose by ${heapRiseMiB} MiB`);
}

/** All of them, as many at once as a reconciliation asks. */
async function atOnce(keys: readonly string[], lookUp: LookUp): Promise<void> {
  const pending = keys.values();
  const next = async () => {
    for (const key of pending) if ((await lookUp(key)) === null) throw new Error(`${key} is not there`);
  };
  await Promise.all(Array.from({ length: INSPECTIONS_AT_ONCE }, next));
}

async function secondsOf(measured: () => Promise<void>): Promise<number> {
  const began = performance.now();
  await measured();
  return (performance.now() - began) / 1_000;
}

/** The look is small beside what is measured, every 50 ms. */
async function until(pool: pg.Pool, text: string, values: readonly unknown[]): Promise<void> {
  for (;;) {
    const { rows } = await pool.query<{ there: boolean }>(text, [...values]);
    if (rows[0]?.there) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function watchHeap(): { riseMiB(): number } {
  const used = () => process.memoryUsage().heapUsed;
  const base = used();
  let most = base;
  const timer = setInterval(() => {
    most = Math.max(most, used());
  }, 20);
  return {
    riseMiB() {
      clearInterval(timer);
      return Math.round((Math.max(most, used()) - base) / 1_048_576);
    },
  };
}
