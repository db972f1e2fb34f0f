/**
 * Reports of inline effects, recorded until they stand: a report is the same however often it is made. One that could not
 * be recorded is kept in this process, and made before anything else is done under its name.
 */

import type { InlineFacts } from "../core/inline.ts";
import type { Decision, OutcomeDecision } from "../core/outcome.ts";
import { describeThrown } from "../core/text.ts";
import { type InlineReport, noteInline, recordInline } from "../store/inline.ts";
import { isPassing, pause } from "../store/transaction.ts";
import type { InlineHost } from "./host.ts";

/** What a process has to say about an intent of its own; null where it is no outcome and says where it stands. */
export type Report = (host: InlineHost) => Promise<InlineFacts | null>;

/** A database that is away for longer leaves the effect unresolved, in milliseconds. */
const REPORT_MS_MAX = 60_000;

/** What could not be recorded yet, by effect (its key in run.ts). It ends with the process, and then the recipient is asked. */
const unreported = new Map<string, Report>();

/** The report of a run: its proof, that nothing was sent, or that it ended without an answer. */
export function reportOfRun(effectId: string, tokenHash: string, decision: Decision): Report {
  if (decision.decision === "unresolved") {
    return async (host) => {
      const note = { effectId, tokenHash, reason: decision.reason };
      await host.connections.take(() => noteInline(host.pool, host.worker, note));
      return null;
    };
  }
  return reporting({ ...reported(effectId, decision), tokenHash, via: "run" });
}

/** The report of a reconcile. */
export function reportOfLookup(
  effectId: string,
  found: OutcomeDecision | { readonly decision: "uncertain"; readonly evidence: InlineReport["evidence"] },
): Report {
  return reporting({ ...reported(effectId, found), tokenHash: null, via: "reconcile" });
}

function reporting(item: InlineReport): Report {
  return (host) => host.connections.take(() => recordInline(host.pool, host.worker, item));
}

function reported(
  effectId: string,
  found: OutcomeDecision | { readonly decision: "uncertain"; readonly evidence: InlineReport["evidence"] },
): Pick<InlineReport, "effectId" | "outcome" | "evidence"> {
  return { effectId, outcome: found.decision === "uncertain" ? "uncertain" : found.outcome, evidence: found.evidence };
}

/** Records it; tries again what passes by itself. @throws the last error once that takes too long, or what does not pass */
export async function record(host: InlineHost, report: Report): Promise<InlineFacts | null> {
  const ends = performance.now() + REPORT_MS_MAX;
  for (let attempt = 1; ; attempt++) {
    try {
      return await report(host);
    } catch (error) {
      if (!isPassing(error) || host.stopping || performance.now() >= ends) throw error;
      await pause(Math.min(5_000, 100 * 2 ** attempt));
    }
  }
}

/** The same for a run's report, which nobody else can make: what was not recorded is kept. */
export async function recordOrKeep(host: InlineHost, key: string, report: Report): Promise<InlineFacts | null> {
  try {
    return await record(host, report);
  } catch (error) {
    unreported.set(key, report);
    throw error;
  }
}

/** Says once that a run ended without an answer: whoever waits hears that at once, and what could not be said is kept. */
export async function noteOrKeep(host: InlineHost, key: string, report: Report): Promise<void> {
  try {
    await report(host);
  } catch (error) {
    unreported.set(key, report);
    host.log(
      "warning",
      `that a run ended without an answer is recorded before its next call: ${describeThrown(error)}`,
    );
  }
}

/** Makes the report that is kept for an effect, if there is one. */
export async function reportKept(host: InlineHost, key: string): Promise<void> {
  const report = unreported.get(key);
  if (!report) return;
  await report(host);
  unreported.delete(key);
}
