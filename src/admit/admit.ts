/**
 * Admission (protocol, section 5): one SERIALIZABLE transaction that locks facts, lets core decide, and writes permits,
 * reservations and intents, or none of it. What comes out of here may be sent, once, and nothing else may.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { boundEffect } from "../adapter/effect.ts";
import { decideAdmissions, type Verdict } from "../core/admission.ts";
import type { Amounts } from "../core/amount.ts";
import { sha256 } from "../core/digest.ts";
import type { AdmissionFacts, EffectFacts, Running } from "../core/facts.ts";
import type { BoundEffect } from "../core/operation.ts";
import type { Runtime } from "../runtime.ts";
import { type AdmittedItem, lockAdmission, recordAdmitted, type StoredBody } from "../store/admission.ts";
import { recordDeclined, recordWaiting } from "../store/effects.ts";
import { CommitUnconfirmedError, transact } from "../store/transaction.ts";
import { settleUnconfirmed } from "./unconfirmed.ts";

/** An effect that waits for its admission in this process, with a handler of its own that can dispatch it at once. */
export interface Candidate {
  readonly effectId: string;
  readonly key: string;
  readonly root: string;
  readonly running: Running;
  readonly dispatchTimeoutMs: number;
  /** Its contract wants a cleanup: the admission owes it. Default: false. */
  readonly cleanup?: boolean;
}

/** An admitted effect, known to this process alone: the token that admits its reports never leaves it. */
export interface Admitted {
  readonly effect: BoundEffect<unknown>;
  readonly root: string;
  readonly tokenHash: string;
  readonly reserved: Amounts;
  /** When COMMIT was sent, by this process's monotonic and wall clocks: the window opens then. */
  readonly opened: { readonly monotonicMs: number; readonly wallMs: number };
}

export type Admission =
  | { readonly admission: "admitted"; readonly admitted: Admitted }
  /** Waiting, declined, or admitted before: the ledger says which, and there is nothing to send. */
  | { readonly admission: "none"; readonly verdict: Verdict["verdict"] | "unconfirmed"; readonly code: string | null };

interface Attempt {
  readonly id: string;
  readonly tokenHash: string;
}

/** Admits what waits together. Results come in the order of the candidates. */
export async function admit(runtime: Runtime, candidates: readonly Candidate[]): Promise<readonly Admission[]> {
  const attempts = new Map(candidates.map((candidate) => [candidate.effectId, newAttempt()]));
  let transactionId: string | null = null;
  try {
    return await transact(
      runtime.pool,
      { isolation: "serializable", roots: candidates.map(({ root }) => root) },
      async (client) => {
        const locked = await lockAdmission(
          client,
          new Map(candidates.map((each) => [each.effectId, each.running])),
          runtime.remembered,
        );
        transactionId = locked.transactionId;
        const verdicts = decideAdmissions(locked.facts);
        const items = admittedItems(verdicts, locked.facts, locked.bodies, candidates, attempts);
        const declined = verdicts.filter((verdict) => verdict.verdict === "declined");
        const waiting = verdicts.filter((verdict) => verdict.verdict === "waits");
        if (declined.length > 0) await recordDeclined(client, runtime.worker, declined);
        if (waiting.length > 0) await recordWaiting(client, runtime.worker, waiting);
        // The window opens here: COMMIT follows the last statement in the same packet.
        const opened = { monotonicMs: performance.now(), wallMs: Date.now() };
        const last = items.length > 0 ? recordAdmitted(client, runtime.worker, items) : Promise.resolve();
        const result = () => {
          runtime.remembered = items.at(-1)?.effectId ?? runtime.remembered;
          return results(candidates, verdicts, locked.facts, locked.bodies, attempts, opened);
        };
        return { last, result };
      },
    );
  } catch (error) {
    if (!(error instanceof CommitUnconfirmedError) || transactionId === null) throw error;
    const hashes = new Map([...attempts].map(([effectId, attempt]) => [effectId, attempt.tokenHash]));
    const fate = await settleUnconfirmed(runtime, transactionId, hashes, candidates);
    if (fate === "aborted") return admit(runtime, candidates);
    return candidates.map(() => ({ admission: "none", verdict: "unconfirmed", code: null }));
  }
}

function newAttempt(): Attempt {
  // The token itself is used for nothing but its hash: whoever holds it in memory is the holder.
  return { id: randomUUID(), tokenHash: sha256(randomBytes(32)).toString("hex") };
}

function admittedItems(
  verdicts: readonly Verdict[],
  facts: AdmissionFacts,
  bodies: ReadonlyMap<string, StoredBody>,
  candidates: readonly Candidate[],
  attempts: ReadonlyMap<string, Attempt>,
): readonly AdmittedItem[] {
  const candidate = new Map(candidates.map((each) => [each.effectId, each]));
  const effects = new Map(facts.effects.map((effect) => [effect.effectId, effect]));
  return verdicts.flatMap((verdict) => {
    if (verdict.verdict !== "admitted") return [];
    const { cost, policyId, lane } = effects.get(verdict.effectId) as EffectFacts;
    const attempt = attempts.get(verdict.effectId) as Attempt;
    return [
      {
        effectId: verdict.effectId,
        digest: bodies.get(verdict.effectId)?.digest ?? "",
        issuedUnder: verdict.issuedUnder,
        permitExpiresAtMs: verdict.permitExpiresAtMs,
        attempt: attempt.id,
        tokenHash: attempt.tokenHash,
        cost,
        charges: verdict.charges,
        policyId,
        lane,
        approvals: verdict.approvals,
        dispatchTimeoutMs: (candidate.get(verdict.effectId) as Candidate).dispatchTimeoutMs,
        cleanup: candidate.get(verdict.effectId)?.cleanup === true,
      },
    ];
  });
}

function results(
  candidates: readonly Candidate[],
  verdicts: readonly Verdict[],
  facts: AdmissionFacts,
  bodies: ReadonlyMap<string, StoredBody>,
  attempts: ReadonlyMap<string, Attempt>,
  opened: Admitted["opened"],
): readonly Admission[] {
  const byEffect = new Map(verdicts.map((verdict) => [verdict.effectId, verdict]));
  const costs = new Map(facts.effects.map(({ effectId, cost }) => [effectId, cost]));
  // An effect of which two jobs met in this batch is admitted once, and one of them alone may send it.
  const given = new Set<string>();
  return candidates.map((candidate): Admission => {
    const verdict = byEffect.get(candidate.effectId);
    if (verdict?.verdict !== "admitted") {
      const code = verdict && "code" in verdict ? verdict.code : null;
      return { admission: "none", verdict: verdict?.verdict ?? "already", code };
    }
    if (given.has(candidate.effectId)) return { admission: "none", verdict: "already", code: null };
    given.add(candidate.effectId);
    const attempt = attempts.get(candidate.effectId) as Attempt;
    const body = bodies.get(candidate.effectId) as StoredBody;
    return {
      admission: "admitted",
      admitted: {
        effect: boundEffect(candidate.effectId, candidate.key, attempt.id, body),
        root: candidate.root,
        tokenHash: attempt.tokenHash,
        reserved: costs.get(candidate.effectId) ?? {},
        opened,
      },
    };
  });
}
