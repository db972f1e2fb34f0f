/** The one effect that awaits approval and that a person means. An approver has no schema audit, so it is looked for without. */
import { LedgerError } from "../core/error.ts";
import { readClock } from "../store/audit.ts";
import type { AwaitingApproval } from "../store/audit-schema-policy.ts";
import { findAwaiting } from "../store/awaiting.ts";
import type { Connected } from "./connection.ts";
import { AmbiguousError } from "./failure.ts";
import { findEffect } from "./find-effect.ts";
import { calledBy } from "./short-id.ts";
import { standingWords } from "./standing-words.ts";

/** For --help of every command that takes one. */
export const AWAITING_HELP = "id, last eight digits of it, name, or task:name";

/** Candidates that are shown. */
const CANDIDATES_MAX = 10;

/** @throws LedgerError `effect_unknown`, `effect_ambiguous`; `approval_unwanted` for one that awaits none. */
export async function findAwaitingEffect(connected: Connected, given: string): Promise<AwaitingApproval> {
  const { audit, audits } = connected;
  const found = await findAwaiting(audit, given, CANDIDATES_MAX);
  const [effect, another] = found;
  if (effect && !another) return effect;
  if (effect) throw ambiguous(given, found);
  if (audits) {
    const other = await findEffect(audit, given); // by its key, too; or it says that there is none
    const [awaiting] = await findAwaiting(audit, other.effect_id, 1);
    if (awaiting) return awaiting;
    const stands = standingWords(other, await readClock(audit));
    throw new LedgerError("approval_unwanted", `${calledBy(other)} awaits no approval: ${stands}`, {
      hint:
        other.state === "requested"
          ? "wait until a worker has prepared it"
          : "there is nothing to approve; pg-effects approval list shows what is",
      effectId: other.effect_id,
    });
  }
  throw new LedgerError("effect_unknown", `nothing that awaits approval goes by ${JSON.stringify(given)}`, {
    hint: "pg-effects approval list shows what does",
  });
}

function ambiguous(given: string, found: readonly AwaitingApproval[]): AmbiguousError {
  return new AmbiguousError(
    `${found.length} effects that await approval go by ${JSON.stringify(given)}`,
    `give one of their ids: ${found.map(({ effect_id, task_path }) => `${effect_id} (under ${task_path})`).join(", ")}`,
    found.map(({ effect_id, name, operation, task_path }) => ({ effect_id, name, operation, task_path })),
  );
}
