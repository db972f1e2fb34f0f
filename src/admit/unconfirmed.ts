/**
 * An admission whose COMMIT was not confirmed (protocol, section 5). This process knows that it sent nothing, so where
 * its tokens are on record it says so; it never dispatches, and it concludes nothing from another server.
 */
import type pg from "pg";
import { decideNoEffect } from "../core/outcome.ts";
import { NO_SECRETS } from "../core/secret.ts";
import { describeThrown } from "../core/text.ts";
import type { Runtime } from "../runtime.ts";
import { type AdmissionFate, admissionFate } from "../store/admission.ts";
import { openClient } from "../store/connection.ts";
import { recordOutcomes } from "../store/outcome.ts";
import type { LogLine } from "../store/queue.ts";
import { isPassing, pause, transact } from "../store/transaction.ts";

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
): Promise<Settled> {
  return askUntilSettled(
    runtime,
    (client) => admissionFate(client, transactionId, tokenHashes),
    (fate) => recordNeverSent(runtime, fate, tokenHashes, candidates),
  );
}

/** How the asking ended. */
export type Settled = "aborted" | "settled" | "elsewhere" | "unknown";

/** Who asks: a worker, or the host of inline effects. `stopping` is read anew before each question. */
export interface Asking {
  readonly connectionString: string;
  readonly ledgerId: string;
  readonly log: LogLine;
  readonly stopping: boolean;
}

/**
 * The same for whoever asks and records in its own words. `recordNeverSent` is true once that is on record.
 */
export async function askUntilSettled(
  asking: Asking,
  askFate: (client: pg.ClientBase) => Promise<AdmissionFate>,
  recordNeverSent: (fate: AdmissionFate) => Promise<boolean>,
): Promise<Settled> {
  do {
    const fate = await ask(asking, askFate);
    if (fate && (fate.identity !== "ok" || fate.ledgerId !== asking.ledgerId)) return "elsewhere";
    if (fate && fate.held.length > 0 && (await recordNeverSent(fate))) return "settled";
    if (fate?.transaction === "aborted") return "aborted";
    if (fate?.transaction === "committed" && fate.held.length === 0) return "settled"; // it stood, and admitted nothing
    await pause(ASK_AGAIN_MS);
  } while (!asking.stopping);
  return "unknown";
}

async function ask(
  asking: Asking,
  askFate: (client: pg.ClientBase) => Promise<AdmissionFate>,
): Promise<AdmissionFate | null> {
  try {
    const client = await openClient(asking.connectionString, "pg-effects fate");
    try {
      return await askFate(client);
    } finally {
      await client.end();
    }
  } catch (error) {
    asking.log("warning", `an unconfirmed admission cannot be looked up yet: ${describeThrown(error)}`);
    return null;
  }
}

/** True once it is on record. One that is not confirmed is made again: the same report is a no-op. */
async function recordNeverSent(
  runtime: Runtime,
  fate: AdmissionFate,
  tokenHashes: ReadonlyMap<string, string>,
  candidates: readonly Asked[],
): Promise<boolean> {
  const roots = candidates.filter(({ effectId }) => fate.held.includes(effectId)).map(({ root }) => root);
  const items = fate.held.map((effectId) => {
    const reserved = Object.fromEntries((fate.units[effectId] ?? []).map((unit) => [unit, 0n]));
    const report = { report: "notSent", evidence: { code: "admission_unconfirmed" } } as const;
    const decision = decideNoEffect(report, reserved, NO_SECRETS);
    return { ...decision, effectId, tokenHash: tokenHashes.get(effectId) ?? null, via: "dispatch" as const };
  });
  try {
    await transact(runtime.pool, { isolation: "read committed", roots }, async (client) => ({
      last: recordOutcomes(client, runtime.worker, items),
      result: () => undefined,
    }));
    return true;
  } catch (error) {
    if (!isPassing(error)) throw error;
    runtime.log("warning", `that an admission was never sent is recorded again: ${describeThrown(error)}`);
    return false;
  }
}
