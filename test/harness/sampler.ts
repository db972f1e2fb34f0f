/**
 * A second pair of eyes: reads every budget in one snapshot, again and again while others work, and keeps what it should
 * never have seen.
 */
import assert from "node:assert/strict";
import type pg from "pg";
import type { TestLedger } from "./ledger.ts";

export interface Sampler {
  /** Tells which limit is being set, before it is: a sum that rose under an earlier one is no fault of the new one. */
  settingLimit(task: string, unit: string, limit: bigint): void;
  /** Stops it. Fails where reserved, spent and overrun were ever seen to rise above every limit that stood meanwhile. */
  stop(): Promise<void>;
  /** Snapshots read so far. */
  readonly snapshots: number;
}

interface Seen {
  readonly task: string;
  readonly unit: string;
  readonly used: bigint;
  readonly limit: bigint;
}

/** Between two snapshots the session only waits for its own answer: some hundreds a second. */
export async function startSampler(test: TestLedger): Promise<Sampler> {
  const client: pg.Client = await test.connect();
  const key = (task: string, unit: string) => `${task} ${unit}`;
  const last = new Map<string, Seen>();
  /** Limits that may have stood since the last snapshot. */
  const stood = new Map<string, bigint[]>();
  const risen: string[] = [];
  let snapshots = 0;
  let stopped = false;

  const look = async () => {
    const told = new Map(stood);
    const { rows } = await client.query<{ task: string; unit: string; used: string; limit: string }>({
      name: "sample",
      text: `select t.name as task, b.unit, (b.reserved::numeric + b.spent + b.overrun)::text as used, b.limit_amount::text as limit
               from effects_ledger.budget b join effects_ledger.task t using (task_id)`,
    });
    snapshots++;
    for (const row of rows) {
      const budget = key(row.task, row.unit);
      const now: Seen = { ...row, used: BigInt(row.used), limit: BigInt(row.limit) };
      const before = last.get(budget);
      const limits = [now.limit, ...(before ? [before.limit] : []), ...(stood.get(budget) ?? [])];
      if (limits.every((limit) => now.used > limit) && now.used > (before?.used ?? 0n)) {
        risen.push(`${budget}: ${before?.used ?? 0n} to ${now.used}, limits ${limits.join(", ")}`);
      }
      last.set(budget, now);
    }
    // What was told while this snapshot was read may have come after it.
    for (const [budget, limits] of told) {
      const later = stood.get(budget)?.slice(limits.length) ?? [];
      if (later.length > 0) stood.set(budget, later);
      else stood.delete(budget);
    }
  };
  const looking = (async () => {
    while (!stopped) await look();
  })();
  looking.catch(() => {}); // `stop` has it
  test.atEnd(() => {
    stopped = true;
    return looking.catch(() => {});
  });

  return {
    settingLimit(task, unit, limit) {
      const budget = key(task, unit);
      stood.set(budget, [...(stood.get(budget) ?? []), limit]);
    },
    async stop() {
      stopped = true;
      await looking;
      assert.deepEqual(risen, []);
    },
    get snapshots() {
      return snapshots;
    },
  };
}
