/**
 * One inspection (protocol, section 7): its row is committed, then the recipient is asked, then what it said is decided
 * and recorded. A crash in between leaves a begun inspection that says so.
 */
import { type AdapterEnd, callAdapter } from "../adapter/call.ts";
import { boundEffect } from "../adapter/effect.ts";
import type { AdapterContext, BoundEffect } from "../core/operation.ts";
import { decideFinding, type Finding, type InspectionFacts } from "../core/reconciliation.ts";
import type { FenceReport, ReconcileReport } from "../core/report.ts";
import type { Secrets } from "../core/secret.ts";
import { describeThrown } from "../core/text.ts";
import { type RunningOperation, type Runtime, secretsOf } from "../runtime.ts";
import { beginInspection, finishInspection, type OpenInspection } from "../store/reconciliation.ts";
import { transact } from "../store/transaction.ts";

export interface Inspecting {
  readonly reconciliationId: string;
  readonly effectId: string;
  readonly allowFence: boolean;
}

type ReadableFinding = Exclude<Finding, { decision: "unreadable" }>;
type Answer = AdapterEnd<ReconcileReport<unknown> | FenceReport<unknown>>;

/** Inspects one effect: a lookup, then, where allowed and nothing was found, a fence. Returns what was recorded. */
export async function inspect(runtime: Runtime, running: RunningOperation, asked: Inspecting): Promise<string | null> {
  const { definition } = running.operation;
  const fenceAllowed = asked.allowFence && definition.fence !== undefined;
  const first = definition.reconcile === undefined && fenceAllowed ? "fence" : "lookup";
  const found = await inspectAs(runtime, running, asked, first, fenceAllowed);
  if (found?.decision !== "fence") return found?.decision ?? null;
  return (await inspectAs(runtime, running, asked, "fence", fenceAllowed))?.decision ?? null;
}

async function inspectAs(
  runtime: Runtime,
  running: RunningOperation,
  asked: Inspecting,
  kind: "lookup" | "fence",
  fenceAllowed: boolean,
): Promise<ReadableFinding | null> {
  const opened = await beginInspection(runtime.pool, {
    ...asked,
    kind,
    worker: runtime.worker,
    implementation: running.implementation,
  });
  if ("skipped" in opened) return null;
  const secrets = secretsOf(runtime, running);
  const began = performance.now();
  const answer = await ask(running, opened, kind, secrets);
  const tookMs = performance.now() - began;
  if (answer.end !== "returned") {
    await finish(runtime, opened, {
      report: "could_not_ask",
      reason: answer.reason,
      tookMs,
      outcome: null,
      evidence: null,
    });
    return null;
  }
  const facts: InspectionFacts = { kind, fenceAllowed, ...opened };
  const found = decide(answer.value, running, facts, secrets);
  if (typeof found === "string") {
    await finish(runtime, opened, { report: "could_not_ask", reason: found, tookMs, outcome: null, evidence: null });
    return null;
  }
  await finish(runtime, opened, { report: found.report, tookMs, ...recordOf(opened, found.finding) });
  return found.finding;
}

/** The finding; or, where the adapter gave no report that can be read, why not. */
function decide(
  report: ReconcileReport<unknown> | FenceReport<unknown>,
  running: RunningOperation,
  facts: InspectionFacts,
  secrets: Secrets,
): { readonly finding: ReadableFinding; readonly report: string } | string {
  try {
    const finding = decideFinding(report, { ...running.rules, secrets }, facts);
    return finding.decision === "unreadable" ? finding.reason : { finding, report: report.report };
  } catch (thrown) {
    return `the adapter's report is unusable: ${describeThrown(thrown, (text) => secrets.strikeOut(text))}`;
  }
}

async function ask(
  running: RunningOperation,
  opened: OpenInspection,
  kind: "lookup" | "fence",
  secrets: Secrets,
): Promise<Answer> {
  const { definition, contract } = running.operation;
  const timeoutMs = Math.min(contract.reconcileTimeoutMs, opened.remainingMs);
  if (timeoutMs <= 0) return { end: "threw", reason: "the request's deadline has passed" };
  const effect: BoundEffect<unknown> = boundEffect(opened.effectId, opened.key, opened.attempt, opened);
  return callAdapter<ReconcileReport<unknown> | FenceReport<unknown>>(
    (context: AdapterContext) =>
      definition[kind === "fence" ? "fence" : "reconcile"]?.(effect, context) ?? {
        report: "unknown",
        reason: "the operation has no lookup",
      },
    { timeoutMs, secrets },
  );
}

/** What a finding records. */
function recordOf(
  opened: OpenInspection,
  finding: ReadableFinding,
): Pick<Parameters<typeof finishInspection>[2], "reason" | "outcome" | "evidence"> {
  const common = { effectId: opened.effectId, tokenHash: null, via: "reconcile" as const };
  switch (finding.decision) {
    case "outcome":
      return { reason: null, evidence: null, outcome: { ...common, ...finding } };
    case "uncertain": {
      const { evidence, reason } = finding;
      const held = { outcome: "uncertain", evidence, reference: null, standing: null, settlements: [] } as const;
      return { reason, evidence: null, outcome: { ...common, ...held } };
    }
    case "fence":
      return { reason: "a fence follows", evidence: finding.evidence, outcome: null };
    case "nothing":
      return { reason: finding.reason, evidence: finding.evidence, outcome: null };
  }
}

async function finish(
  runtime: Runtime,
  opened: OpenInspection,
  found: Omit<Parameters<typeof finishInspection>[2], "inspectionId">,
): Promise<void> {
  await transact(runtime.pool, { isolation: "read committed", roots: [opened.root] }, async (client) => ({
    last: finishInspection(client, runtime.worker, { inspectionId: opened.inspectionId, ...found }),
    result: () => undefined,
  }));
}
