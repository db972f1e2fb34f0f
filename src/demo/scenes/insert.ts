/**
 * The insert: it is cut before it arrives. Nobody can tell that from the sender's side, and a late one might still come;
 * so the reconciliation leaves a void mark. Then a late one comes: the adapter's own dispatch, as a sender that was frozen
 * would go on with it.
 */

import type { BoundEffect, DispatchContext } from "../../index.ts";
import { countShipments, PACKERS } from "../databases.ts";
import { ending, reconciled, see } from "../effects.ts";
import { contains, type Match } from "../recipients/fault-rule.ts";
import type { Stage } from "../stage.ts";
import type { Story } from "../story.ts";
import postgresInsert from "../tasks/postgres_insert.ts";
import { reached, WAIT_MS_MAX } from "../wait.ts";
import { effectsSecrets } from "../workers.ts";

/** In the Postgres protocol a statement stands as its text. */
export const THE_INSERT: Match = contains("insert into public.");

const SHIPMENT = { table: "public.shipment", row: { order_no: "1001", packed_by: PACKERS.effects } };

export async function cutAnInsert(stage: Stage, story: Story, task: string): Promise<void> {
  const { effects, ledger, signal } = stage;
  const count = () => countShipments(stage.databases.pools.recipient, "effects");
  const cut = effects.recipient.cutBeforeRequest({ match: THE_INSERT });
  const effectId = await ledger.enqueue(postgresInsert, SHIPMENT, { task, name: "order/1001/shipment" });
  await reached("the insert on the wire", cut.reached, signal);
  const { state, unresolved, key } = await ending(stage, effectId);
  story.saw("insert_unresolved", { state, unresolved, ...(await count()) });

  const after = await reconciled(stage, effectId, { allowFence: true });
  story.saw("insert_no_effect", { state: after.state, via: after.via, ...(await count()) });

  const report = await dispatchLate(stage, effectId, key);
  const last = await see(stage, effectId);
  story.saw("insert_late_refused", {
    report: report.report,
    code: report.report === "failed" ? report.code : null,
    state: last.state,
    via: last.via,
    ...(await count()),
  });
}

async function dispatchLate(stage: Stage, id: string, key: string) {
  const { definition } = postgresInsert;
  const secrets = effectsSecrets(stage);
  const context: DispatchContext = {
    signal: AbortSignal.any([stage.signal, AbortSignal.timeout(WAIT_MS_MAX)]),
    deadline: new Date(Date.now() + WAIT_MS_MAX),
    secret: (name) => secrets[name] ?? "",
    reference: async () => {},
    assertAuthority: async () => {},
  };
  const prepared = await definition.prepare?.(SHIPMENT, context);
  if (!prepared || "invalid" in prepared) throw new Error("the late insert could not be prepared");
  const { target, account = null, payload } = prepared;
  const effect: BoundEffect<typeof payload> = { id, key, target, account, payload, precondition: null, attempt: id };
  return definition.dispatch(effect, context);
}
