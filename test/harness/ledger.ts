/**
 * A ledger for one test file: a database of its own, workers that end with the file, and the look that every such file
 * ends with: `audit.violations` is empty.
 */
import assert from "node:assert/strict";
import { after } from "node:test";
import pg from "pg";
import { type Ledger, openLedger, type Standing, type WorkerOptions, type Working } from "../../src/index.ts";
import { createTestDatabase } from "./database.ts";
import { waitFor } from "./wait.ts";
import { startWorkerChild, type WorkerChild, type WorkerChildOptions } from "./worker-child.ts";

// Else every worker would start git to learn it.
process.env.PG_EFFECTS_RELEASE ??= "test";

/** A test's own statement that waits longer than this waits for a lock that nobody will give up. */
const STATEMENT_MS_MAX = 60_000;

export interface TestLedger {
  readonly ledger: Ledger;
  /** As superuser. */
  readonly connectionString: string;
  /** What workers in this process logged. */
  readonly log: readonly string[];
  /** Runs a statement on one of a few sessions that only look. */
  sql<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>;
  /** The single value of a single row. */
  value<Value>(text: string, values?: readonly unknown[]): Promise<Value>;
  /** A session of its own. */
  connect(): Promise<pg.Client>;
  /** Waits until an effect has an ending (declined, unresolved, or an outcome). */
  ended(effectId: string, timeoutMs?: number): Promise<Standing>;
  /** Waits until the queue holds no job. */
  idle(): Promise<void>;
  /** A worker in this process; `through` is another way to the same database. */
  work(options: WorkerOptions, through?: string): Promise<Working>;
  /** A worker in a process of its own. */
  child(options?: Partial<WorkerChildOptions>): Promise<WorkerChild>;
  /** Runs when the file ends, before the database goes; the latest first. */
  atEnd(undo: () => unknown): void;
}

/** Makes it. To be called at the top of a test file. `sound: false` where a test breaks the record on purpose. */
export async function openTestLedger({ sound = true }: { readonly sound?: boolean } = {}): Promise<TestLedger> {
  const undo: (() => unknown)[] = [];
  after(async () => {
    for (const step of undo.reverse()) await step();
  });
  const { connectionString, drop } = await createTestDatabase();
  undo.push(drop);
  const session = { connectionString, application_name: "test", statement_timeout: STATEMENT_MS_MAX };
  const pool = new pg.Pool({ ...session, max: 4 });
  undo.push(() => pool.end());
  if (sound) undo.push(async () => assert.deepEqual(await violations(pool), []));
  const ledger = await openLedger({ connectionString });
  undo.push(() => ledger.close());
  const log: string[] = [];

  const test: TestLedger = {
    ledger,
    connectionString,
    log,
    async sql<Row extends object>(text: string, values: readonly unknown[] = []) {
      return (await pool.query<Row>(text, [...values])).rows;
    },
    async value<Value>(text: string, values: readonly unknown[] = []) {
      const { rows } = await pool.query({ text, values: [...values], rowMode: "array" });
      return (rows as unknown[][])[0]?.[0] as Value;
    },
    async connect() {
      const client = new pg.Client(session);
      client.on("error", () => {}); // a session that a test cuts; its next query says so
      await client.connect();
      undo.push(() => client.end());
      return client;
    },
    ended: (effectId, timeoutMs) =>
      waitFor(
        `effect ${effectId} ends`,
        async () => {
          const standing = await ledger.observe(effectId);
          assert.ok(standing, `there is no effect ${effectId}`);
          const pending = standing.state === "requested" || standing.state === "prepared";
          return pending || (standing.state === "admitted" && !standing.unresolved) ? null : standing;
        },
        timeoutMs === undefined ? {} : { timeoutMs },
      ),
    async idle() {
      await waitFor(
        "the queue is empty",
        async () => (await test.value("select count(*) from effects_queue.jobs")) === "0",
      );
    },
    async work(options, through) {
      const opened = through === undefined ? ledger : await openLedger({ connectionString: through });
      if (opened !== ledger) undo.push(() => opened.close());
      const working = await opened.work({ log: (level, message) => log.push(`${level}: ${message}`), ...options });
      undo.push(() => working.stop());
      return working;
    },
    async child(options = {}) {
      const child = await startWorkerChild({ connectionString, ...options });
      undo.push(() => {
        child.signal("SIGKILL");
        return child.exited;
      });
      return child;
    },
    atEnd: (step) => undo.push(step),
  };
  return test;
}

/** What `audit.violations` lists, in one line each. */
export async function violations(client: Pick<pg.Pool, "query">): Promise<readonly string[]> {
  const { rows } = await client.query<{ violation: string; detail: string }>("select * from audit.violations");
  return rows.map(({ violation, detail }) => `${violation}: ${detail}`);
}
