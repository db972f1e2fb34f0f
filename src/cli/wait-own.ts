/**
 * Waiting for an effect as the service that requested it may: by effects.observe, without the schema audit. Prints what that
 * shows and nothing else.
 */
import { cleanText } from "../core/text.ts";
import type { ObservedRow } from "../observe/standing.ts";
import { readClock } from "../store/audit.ts";
import { onClient } from "../store/control.ts";
import { observeEffect } from "../store/ledger.ts";
import type { Connected } from "./connection.ts";
import { endingExit } from "./ending.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import { type Output, toJson } from "./output.ts";
import { type Stands, standingWords } from "./standing-words.ts";
import { lookUntil } from "./watch.ts";

/** Waits, prints where it stands then, and returns the exit code for it. */
export async function waitForOwn(
  { audit, connectionString }: Connected,
  output: Output,
  id: string,
  until: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<ExitCode> {
  return onClient(connectionString, "pg-effects wait", async (client) => {
    let row = await observeEffect<ObservedRow>(client, id);
    const ended = await lookUntil(async () => {
      row = await observeEffect<ObservedRow>(client, id);
      return row && endingExit(row) !== EXIT.deadline ? row : null;
    }, until);
    if (!row) return EXIT.fault;
    output.document({ effect_id: id, effect: row, hint: row.hint });
    output.line(standingWords(standsAs(row), await readClock(audit)));
    if (row.hint !== null) output.line(`  ${row.hint}`);
    const said = row.proof ?? row.evidence;
    if (said !== null) output.line(`  ${cleanText(toJson(said))}`);
    if (!ended) output.note(`it goes on: select * from effects.observe('${id}')`);
    return !ended && until.signal.aborted ? EXIT.interrupted : endingExit(row);
  });
}

/** In the words of the schema audit. */
export function standsAs(row: ObservedRow): Stands {
  return {
    ...row,
    denial_code: row.code,
    declined_reason: row.reason,
    not_before: null,
    dispatch_deadline: null,
    outcome_via: row.via,
    resolution: row.resolution?.kind ?? null,
    resolution_says: row.resolution?.says ?? null,
  };
}
