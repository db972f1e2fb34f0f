/**
 * The admission decision (protocol, section 5): a pure function over locked facts. It has no clock, no database and no
 * environment; the moment is one of the facts. A batch is decided in the order given: what one effect takes, the next
 * one finds taken, and one that does not fit is denied alone.
 */

import { type CheckStanding, standingOf } from "./check-standing.ts";
import { DENIALS, type DenialCode, RETRY_AFTER_MS, type WaitingFor } from "./denial.ts";
import type { AdmissionFacts, EffectFacts } from "./facts.ts";
import { approvalsOf, CHECKS, type Check, type Denial, firstDenial, ownersPolicy, REASONS } from "./reasons.ts";
import { type Charge, Room } from "./room.ts";
import type { DeclinedReason, State } from "./state.ts";

export type Verdict =
  | {
      readonly verdict: "admitted";
      readonly effectId: string;
      readonly issuedUnder: "policy" | "ordinary";
      readonly permitExpiresAtMs: number;
      readonly charges: readonly Charge[];
      /** The approvals that counted, where its policy wanted some. */
      readonly approvals: readonly string[];
    }
  | {
      readonly verdict: "waits";
      readonly effectId: string;
      readonly code: DenialCode;
      readonly waitingFor: WaitingFor;
      readonly retryAfterMs: number;
      readonly detail: Readonly<Record<string, string>>;
    }
  | {
      readonly verdict: "declined";
      readonly effectId: string;
      readonly code: DenialCode;
      readonly reason: DeclinedReason;
      readonly detail: Readonly<Record<string, string>>;
    }
  /** It has its permit, or was declined: its state is told, nothing is written. */
  | { readonly verdict: "already"; readonly effectId: string; readonly state: State };

/** Decides a batch, in the order given. */
export function decideAdmissions(facts: AdmissionFacts): readonly Verdict[] {
  const room = new Room(facts);
  return facts.effects.map((effect): Verdict => {
    if (effect.state !== "prepared") return { verdict: "already", effectId: effect.effectId, state: effect.state };
    const denial = firstDenial(facts, effect, room);
    return denial ? denied(facts, effect, denial) : admitted(facts, effect, room);
  });
}

function admitted(facts: AdmissionFacts, effect: EffectFacts, room: Room): Verdict {
  const policy = ownersPolicy(facts, effect);
  const approvals = policy && policy.approvalsNeeded > 0 ? approvalsOf(facts, effect, policy) : null;
  const deadlines = effect.lineage.map((taskId) => facts.tasks.get(taskId)?.deadlineMs ?? Number.POSITIVE_INFINITY);
  return {
    verdict: "admitted",
    effectId: effect.effectId,
    issuedUnder: policy ? "policy" : "ordinary",
    // The smallest of all the horizons (protocol, section 5, check 5).
    permitExpiresAtMs: Math.min(
      effect.expiresAtMs,
      ...deadlines,
      policy?.expiresAtMs ?? Number.POSITIVE_INFINITY,
      approvals?.expiresAtMs ?? Number.POSITIVE_INFINITY,
    ),
    charges: room.take(effect),
    approvals: approvals?.counted ?? [],
  };
}

/** One line of an explanation: a check, what stands against the effect there, and else how it stands. */
export interface CheckLine {
  readonly check: Check;
  readonly denial: (Pick<Denial, "code" | "detail"> & { readonly waitingFor: WaitingFor | null }) | null;
  readonly standing: CheckStanding;
}

/** The admission decision of now for one effect, as its eight checks: by the same functions that decide. */
export function explainAdmission(facts: AdmissionFacts, effect: EffectFacts): readonly CheckLine[] {
  const room = new Room(facts);
  return CHECKS.map((check) => {
    const reasons = REASONS.filter(([each]) => each === check);
    const denial = reasons.map(([, find]) => find(facts, effect, room)).find((found) => found !== null);
    return {
      check,
      denial: denial ? { code: denial.code, detail: denial.detail, waitingFor: waitingFor(denial.code, effect) } : null,
      standing: standingOf(check, facts, effect, room),
    };
  });
}

const DECLINED_AS: Partial<Record<DenialCode, DeclinedReason>> = {
  binding_expired: "expired",
  task_expired: "expired",
  policy_expired: "expired",
  task_revoked: "revoked",
  actor_revoked: "revoked",
  policy_revoked: "revoked",
  operation_withdrawn: "revoked",
  approval_refused: "refused",
};

/** What a denial waits for; `null` where it declines, which every denial does where the request says so. */
function waitingFor(code: DenialCode, effect: EffectFacts): WaitingFor | null {
  return effect.onDenial === "decline" ? null : DENIALS[code];
}

function denied(facts: AdmissionFacts, effect: EffectFacts, denial: Denial): Verdict {
  const { effectId } = effect;
  const { code, detail } = denial;
  const wanted = waitingFor(code, effect);
  if (wanted === null) {
    return { verdict: "declined", effectId, code, reason: DECLINED_AS[code] ?? "denied", detail };
  }
  const retryAfterMs = denial.retryAfterMs ?? RETRY_AFTER_MS[wanted];
  // Not later than its expiry: then it is declined, and whoever waits for it learns so. What has expired behind an
  // earlier denial (a closed ledger, say) waits as long as that one asks for.
  const left = effect.expiresAtMs - facts.nowMs;
  return {
    verdict: "waits",
    effectId,
    code,
    waitingFor: wanted,
    retryAfterMs: left > 0 ? Math.min(retryAfterMs, left) : retryAfterMs,
    detail,
  };
}
