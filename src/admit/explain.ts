/**
 * Why an effect waits: the admission decision run on the facts of now, and rolled back. Nothing is written, and the locks
 * are held no longer than an admission holds them.
 */
import type pg from "pg";
import { type CheckLine, explainAdmission } from "../core/admission.ts";
import { LedgerError } from "../core/error.ts";
import type { State } from "../core/state.ts";
import { lockAdmission } from "../store/admission.ts";
import { registeredRunning } from "../store/effects.ts";
import { lookAndRollBack } from "../store/transaction.ts";

export interface Explanation {
  readonly effectId: string;
  readonly state: State;
  /** The eight checks; for an effect that is no longer waiting, what would stand against it now. */
  readonly lines: readonly CheckLine[];
}

/**
 * Explains an effect. It is judged as a worker of the newest registered implementation would.
 * @throws LedgerError `effect_unknown`; `not_prepared` for one that no worker has bound yet.
 */
export async function explain(client: pg.ClientBase, effectId: string): Promise<Explanation> {
  const running = await registeredRunning(client, effectId);
  if (running === null) throw new LedgerError("effect_unknown", `there is no effect ${effectId}`, { effectId });
  return lookAndRollBack(client, async () => {
    const { facts } = await lockAdmission(client, new Map([[effectId, running]]));
    const [effect] = facts.effects;
    if (!effect) throw new LedgerError("effect_unknown", `there is no effect ${effectId}`, { effectId });
    if (effect.revision === 0) {
      throw new LedgerError(
        "not_prepared",
        `effect ${effectId} is ${effect.state}: nothing is bound, so nothing is decided`,
        {
          effectId,
          hint: "a worker that has its operation prepares it: pg-effects show says what it waits for",
        },
      );
    }
    return { effectId, state: effect.state, lines: explainAdmission(facts, effect) };
  });
}
