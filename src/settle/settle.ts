/**
 * Settlement (protocol, section 6): records what dispatches report, many in one transaction. An outcome is recorded once;
 * the same report again is a no-op, so whoever is unsure whether it was recorded records it again.
 */
import type { Decision } from "../core/outcome.ts";
import type { Runtime } from "../runtime.ts";
import { type NoteItem, type OutcomeFate, type OutcomeItem, recordNotes, recordOutcomes } from "../store/outcome.ts";
import { transact } from "../store/transaction.ts";

/** What one attempt reports: an outcome, or a note that there is none (yet). */
export interface Report {
  readonly effectId: string;
  readonly root: string;
  readonly tokenHash: string;
  readonly decision: Decision;
  readonly ended: boolean;
}

/** `noted` where no outcome was reported. */
export type ReportFate = OutcomeFate | "noted";

/** Records reports that wait together. Fates come in the order of the reports. */
export function settle(runtime: Runtime, reports: readonly Report[]): Promise<readonly ReportFate[]> {
  const outcomes = reports.flatMap(toOutcome);
  const notes = reports.flatMap(toNote);
  return transact(
    runtime.pool,
    { isolation: "read committed", roots: reports.map(({ root }) => root) },
    async (client) => {
      if (notes.length > 0) await recordNotes(client, runtime.worker, notes);
      let fates: ReadonlyMap<string, OutcomeFate> = new Map();
      const last =
        outcomes.length > 0
          ? recordOutcomes(client, runtime.worker, outcomes).then((recorded) => {
              fates = recorded;
            })
          : Promise.resolve();
      return { last, result: () => reports.map(({ effectId }) => fates.get(effectId) ?? "noted") };
    },
  );
}

function toOutcome(report: Report): OutcomeItem[] {
  const { decision } = report;
  if (decision.decision !== "outcome") return [];
  return [{ ...decision, effectId: report.effectId, tokenHash: report.tokenHash, via: "dispatch" }];
}

function toNote(report: Report): NoteItem[] {
  const { decision } = report;
  if (decision.decision !== "unresolved") return [];
  const { effectId, tokenHash, ended } = report;
  return [{ effectId, tokenHash, event: "unresolved", ended, detail: { reason: decision.reason } }];
}
