/** What the scenes ask the ledger about an effect, and how they ask for a reconciliation. They never write to it otherwise. */
import type { Stage } from "./stage.ts";
import { until } from "./wait.ts";

/** An effect as an auditor sees it. */
export interface Seen {
  readonly key: string;
  readonly state: string;
  readonly unresolved: boolean;
  readonly via: string | null;
  readonly reference: string | null;
  readonly resolution: string | null;
}

/** From the request to the end of its run, for one effect; it cannot be extended. */
const RECONCILE_DEADLINE_MS = 15_000;

export async function see({ databases }: Stage, effectId: string): Promise<Seen> {
  const { rows } = await databases.pools.ledger.query<Seen>(
    `select key, state, unresolved, outcome_via as via, reference, resolution from audit.effects where effect_id = $1`,
    [effectId],
  );
  const [seen] = rows;
  if (!seen) throw new Error(`the ledger has no effect ${effectId}`);
  return seen;
}

/** Waits until an effect has come to an ending by itself: declined, unresolved, or an outcome. */
export async function ending(stage: Stage, effectId: string): Promise<Seen> {
  return until(
    "an ending of the effect",
    async () => {
      const seen = await see(stage, effectId);
      return ["requested", "prepared"].includes(seen.state) || (seen.state === "admitted" && !seen.unresolved)
        ? null
        : seen;
    },
    stage,
  );
}

/** Asks the recipient about one effect, waits until that has ended, and returns where the effect stands then. */
export async function reconciled(
  stage: Stage,
  effectId: string,
  options: { readonly allowFence?: boolean } = {},
): Promise<Seen> {
  const asked = await stage.ledger.reconcile({ effect: effectId, deadlineMs: RECONCILE_DEADLINE_MS, ...options });
  await until(
    "the end of the reconciliation",
    async () => {
      const { rowCount } = await stage.databases.pools.ledger.query(
        "select from audit.reconciliations where reconciliation_id = $1 and ended is not null",
        [asked],
      );
      return rowCount === 1 ? true : null;
    },
    stage,
  );
  return see(stage, effectId);
}
