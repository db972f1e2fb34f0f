/**
 * Has each effect of a list tried again, each in a transaction of its own, and reports every one. It may be stopped in
 * between and run again: what was followed is not in the next list.
 */
import { LedgerError } from "../core/error.ts";
import { cleanText } from "../core/text.ts";
import { followStatement } from "../request/request.ts";
import type { DeclinedEffect } from "../store/audit-followers.ts";
import { wordConnectionError } from "../store/connection.ts";
import { onClient, runChangeOn } from "../store/control.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./exit-code.ts";
import type { Output } from "./output.ts";
import { calledBy, shortId } from "./short-id.ts";

export interface FollowingMany {
  readonly reason?: string;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
}

/** Follows each; returns the exit code. What is no refusal of one effect ends the run, and is thrown after the sum. */
export async function followMany(
  connectionString: string,
  output: Output,
  effects: readonly DeclinedEffect[],
  { reason, dryRun, signal }: FollowingMany,
): Promise<ExitCode> {
  let reached = 0;
  let refused = 0;
  try {
    await onClient(connectionString, "pg-effects follow", async (client) => {
      for (const effect of effects) {
        if (signal.aborted) return;
        const { effect_id, name, operation, task_name } = effect;
        const event = { event: "effect", follows: effect_id, name, operation, task: task_name };
        try {
          const statement = followStatement(effect_id, reason);
          const follower = await runChangeOn<{ effect_id: string }>(client, { ...statement, dryRun });
          output.event({ ...event, effect_id: dryRun ? null : follower.effect_id });
          output.line(
            cleanText(
              `${called(effect)}  ${dryRun ? "would be tried again" : `is tried again as ${shortId(follower.effect_id)}`}`,
            ),
          );
        } catch (error) {
          const refusal = refusalOf(error);
          refused += 1;
          output.event({ ...event, error: { code: refusal.code, message: refusal.message } });
          output.line(cleanText(`${called(effect)}  refused: ${refusal.code}  ${refusal.message}`));
        }
        reached += 1;
      }
    });
  } finally {
    const rest = effects.length - reached;
    if (rest > 0)
      output.note(`stopped: ${rest} not reached; run the same again, what was followed is not followed twice`);
  }
  const rest = effects.length - reached;
  const exit = rest > 0 ? EXIT.deadline : refused > 0 ? EXIT.refused : EXIT.done;
  const followed = reached - refused;
  output.event({ event: "ended", dry_run: dryRun, followed, refused, not_reached: rest, exit });
  const sum =
    effects.length === 0
      ? "nothing was declined so that nobody tried again"
      : `followed ${followed}, refused ${refused}`;
  output.line(dryRun ? `${sum}; a dry run: nothing is changed` : sum);
  return exit;
}

function called(effect: DeclinedEffect): string {
  return `${calledBy(effect)} (${effect.operation}, ${effect.denial_code ?? "declined"})`;
}

/** A refusal of this one effect; anything else ends the run. */
function refusalOf(thrown: unknown): LedgerError {
  const error = wordConnectionError(thrown);
  if (!(error instanceof LedgerError) || error.code === "42501") throw error;
  if (exitCodeOf(error.code) !== EXIT.refused && error.code !== "lock_timeout") throw error;
  return error;
}
