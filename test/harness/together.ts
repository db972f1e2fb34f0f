/** Effects that are admitted in one transaction and reported in one, and what the record says about them afterwards. */
import assert from "node:assert/strict";
import type { Counted } from "./counted-operation.ts";
import type { TestLedger } from "./ledger.ts";
import { waitFor } from "./wait.ts";

export interface Together {
  /** So many effects of 7 cents under a new task of this name, that has 100: prepared, then admitted together. */
  ask(task: string, count: number): Promise<readonly string[]>;
  /** Requests that arrived for this task's effects; none arrived twice. */
  hits(task: string): number;
  /** Their states, each once. */
  states(ids: readonly string[]): Promise<string>;
  /** What happened to each after its preparation, each way once. */
  histories(ids: readonly string[]): Promise<readonly string[]>;
  /** Reserved, spent and overrun of a task's budget. */
  sums(task: string): Promise<string>;
  /** Of how many transactions their permits or outcomes are. */
  transactions(table: "permit" | "outcome", ids: readonly string[]): Promise<number>;
}

/** For an operation whose worker runs in this process. Effect number n of a task goes `to` its name and n. */
export function together(subject: TestLedger, { operation, hits }: Counted): Together {
  const { ledger } = subject;
  const { name } = operation.definition;
  const asked = new Map<string, number>();
  return {
    async ask(task, count) {
      asked.set(task, count);
      await ledger.openTask(task, { budgets: { usd_cents: 100n } });
      await ledger.pause({ operation: name, reason: "until all of them wait" });
      const requests = Array.from({ length: count }, (_, place) =>
        ledger.enqueue(operation, { to: `${task}/${place}`, cents: 7 }, { task }),
      );
      const ids = await Promise.all(requests);
      const waiting = "select count(*) from audit.effects where effect_id = any ($1) and waiting_for = 'paused'";
      await waitFor("all are prepared", async () => (await subject.value(waiting, [ids])) === String(count));
      await ledger.resume({ operation: name, reason: "all of them wait" });
      return ids;
    },
    hits(task) {
      const each = Array.from({ length: asked.get(task) ?? 0 }, (_, place) => hits(`${task}/${place}`));
      for (const arrived of each) assert.ok(arrived <= 1, `${task}: one arrived ${arrived} times`);
      return each.reduce((sum, arrived) => sum + arrived, 0);
    },
    states: (ids) =>
      subject.value("select string_agg(distinct state, ' ') from audit.effects where effect_id = any ($1)", [ids]),
    async histories(ids) {
      const rows = await subject.sql<{ history: string }>(
        `select distinct string_agg(event, ' ' order by seq) as history from audit.events
          where effect_id = any ($1) and event not in ('requested', 'prepared', 'denied') group by effect_id`,
        [ids],
      );
      return rows.map(({ history }) => history);
    },
    async sums(task) {
      const [row] = await subject.sql<Record<string, string>>(
        `select b.reserved, b.spent, b.overrun from effects_ledger.budget b join effects_ledger.task t using (task_id)
          where t.name = $1`,
        [task],
      );
      return Object.values(row ?? {}).join(" ");
    },
    async transactions(table, ids) {
      const moment = table === "permit" ? "issued_at" : "at";
      const moments = `select count(distinct ${moment}) from effects_ledger.${table} where effect_id = any ($1)`;
      return Number(await subject.value(moments, [ids]));
    },
  };
}
