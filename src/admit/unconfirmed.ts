/**
 * An admission whose COMMIT was not confirmed (protocol, section 5). This process knows that it sent nothing, so where
 * its tokens are on record it says so; it never dispatches, and it concludes nothing from another server.
 */
import { decideNoEffect } from "../core/outcome.ts";
import { NO_SECRETS } from "../core/secret.ts";
import { describeThrown } from "../core/text.ts";
import type { Runtime } from "../runtime.ts";
import { type AdmissionFate, admissionFate } from "../store/admission.ts";
import { openClient } from "../store/connection.ts";
import { recordOutcomes } from "../store/outcome.ts";
import { pause, transact } from "../store/transaction.ts";

/** Between two questions about the same transaction. */
const ASK_AGAIN_MS = 250;

/** An effect whose admission is asked about, and the root task whose gate its record takes. */
interface Asked {
  readonly effectId: string;
  readonly root: string;
}

/**
 * Asks until the record answers. `aborted`: nothing stands, it may be admitted again. `settled`: it stood, and is
 * recorded as `no_effect`. `elsewhere`: the server that answers is not this ledger's. `unknown`: the process stopped
 * asking; the effects stay unresolved.
 */
export async function settleUnconfirmed(
  runtime: Runtime,
  transactionId: string,
  tokenHashes: ReadonlyMap<string, string>,
  candidates: readonly Asked[],
): Promise<"aborted" | "settled" | "elsewhere" | "unknown"> {
  while (!runtime.stopping) {
    const fate = await ask(runtime, transactionId, tokenHashes);
    if (fate && (fate.identity !== "ok" || fate.ledgerId !== runtime.ledgerId)) return "elsewhere";
    if (fate && fate.held.length > 0) {
      await recordNeverSent(runtime, fate, tokenHashes, candidates);
      return "settled";
    }
    if (fate?.transaction === "aborted") return "aborted";
    if (fate?.transaction === "committed") return "settled"; // it stood, and admitted nothing
    await pause(ASK_AGAIN_MS);
  }
  return "unknown";
}

async function ask(
  runtime: Runtime,
  transactionId: string,
  tokenHashes: ReadonlyMap<string, string>,
): Promise<AdmissionFate | null> {
  try {
    const client = await openClient(runtime.connectionString, "pg-effects fate");
    try {
      return await admissionFate(client, transactionId, tokenHashes);
    } finally {
      await client.end();
    }
  } catch (error) {
    runtime.log("warning", `an unconfirmed admission cannot be looked up yet: ${describeThrown(error)}`);
    return null;
  }
}

async function recordNeverSent(
  runtime: Runtime,
  fate: AdmissionFate,
  tokenHashes: ReadonlyMap<string, string>,
  candidates: readonly Asked[],
): Promise<void> {
  const roots = candidates.filter(({ effectId }) => fate.held.includes(effectId)).map(({ root }) => root);
  const items = fate.held.map((effectId) => {
    const reserved = Object.fromEntries((fate.units[effectId] ?? []).map((unit) => [unit, 0n]));
    const report = { report: "notSent", evidence: { code: "admission_unconfirmed" } } as const;
    const decision = decideNoEffect(report, reserved, NO_SECRETS);
    return { ...decision, effectId, tokenHash: tokenHashes.get(effectId) ?? null, via: "dispatch" as const };
  });
  await transact(runtime.pool, { isolation: "read committed", roots }, async (client) => ({
    last: recordOutcomes(client, runtime.worker, items),
    result: () => undefined,
  }));
}
