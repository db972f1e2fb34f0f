/** Budgets as a table. What is reserved for effects in doubt stands apart: it comes back only when somebody asks. */
import type { AuditBudget } from "../store/audit-schema.ts";
import { formatMoment } from "./moment.ts";
import { tableLines } from "./table.ts";

export function budgetLines(budgets: readonly AuditBudget[], now: Date): readonly string[] {
  return tableLines(
    [
      { title: "budget", cell: ({ unit }) => unit },
      { title: "limit", align: "right", cell: ({ limit_amount }) => String(limit_amount) },
      { title: "reserved", align: "right", cell: ({ reserved }) => String(reserved) },
      { title: "of it in doubt", align: "right", cell: ({ reserved_in_doubt }) => String(reserved_in_doubt) },
      { title: "spent", align: "right", cell: ({ spent }) => String(spent) },
      { title: "overrun", align: "right", cell: ({ overrun }) => String(overrun) },
      { title: "left", align: "right", cell: ({ left_amount }) => left_amount },
      { title: "set", cell: ({ set_by, set_at }) => `${formatMoment(set_at, now)} by ${set_by}` },
    ],
    budgets,
  );
}
