/**
 * One inspection (protocol, section 7): its row is committed, then the recipient is asked, then what it said is decided
 * and recorded. A crash in between leaves a begun inspection that says so.
 */
import { type AdapterEnd, callAdapter } from "../adapter/call.ts";
import { boundEffect } from "../adapter/effect.ts";
import type { AdapterContext } from "../core/operation.ts";
import { decideFinding, type Finding, type InspectionKind } from "../core/reconciliation.ts";
import type { FenceReport, ReconcileReport, ResubmitReport } from "../core/report.ts";
import type { Secrets } from "../core/secret.ts";
import { describeThrown } from "../core/text.ts";
import { type RunningOperation, type Runtime, secretsOf } from "../runtime.ts";
import type { FoundItem, InspectionItem, Opened, OpenInspection, ScopedEffect } from "../store/reconciliation.ts";
import { openResubmission } from "./resubmit.ts";

/** The steps that inspections of a process take together. */
export interface InspectionSteps {
  begin(item: InspectionItem): Promise<Opened>;
  finish(item: FoundItem): Promise<void>;
}

export interface Inspecting extends ScopedEffect {
  readonly reconciliationId: string;
  readonly allowFence: boolean;
  readonly allowResubmit: boolean;
}

type Report = ReconcileReport<unknown> | FenceReport<unknown> | ResubmitReport<unknown>;
type ReadableFinding = Exclude<Finding, { decision: "unreadable" }>;
type Next = "fence" | "resubmit" | null;

/** Inspects one effect: a lookup, then, where nothing was found, what the request allows. */
export async function inspect(
  runtime: Runtime,
  steps: InspectionSteps,
  running: RunningOperation,
  asked: Inspecting,
): Promise<void> {
  const { definition } = running.operation;
  const next = nextOf(asked, running);
  const first = definition.reconcile === undefined && next !== null ? next : "lookup";
  const found = await inspectAs(runtime, steps, running, asked, first, next);
  if (found?.decision === "goes_on") await inspectAs(runtime, steps, running, asked, found.to, null);
}

function nextOf(asked: Inspecting, { operation: { definition } }: RunningOperation): Next {
  if (asked.allowFence && definition.fence !== undefined) return "fence";
  return asked.allowResubmit && definition.resubmit !== undefined ? "resubmit" : null;
}

async function inspectAs(
  runtime: Runtime,
  steps: InspectionSteps,
  running: RunningOperation,
  asked: Inspecting,
  kind: InspectionKind,
  next: Next,
): Promise<ReadableFinding | null> {
  const { definition } = running.operation;
  const item: InspectionItem = {
    ...asked,
    kind,
    implementation: running.implementation,
    versions: [definition.version, ...(definition.reconciles ?? [])],
  };
  const opened = kind === "resubmit" ? await openResubmission(runtime, running, item) : await steps.begin(item);
  if ("skipped" in opened) return null;
  const secrets = secretsOf(runtime, running);
  const began = performance.now();
  const answer = await ask(running, opened, kind, secrets);
  const common = { inspectionId: opened.inspectionId, root: opened.root, tookMs: performance.now() - began };
  const found =
    answer.end === "returned" ? decide(answer.value, running, { ...opened, kind, next }, secrets) : answer.reason;
  if (typeof found === "string") {
    const none = { outcome: null, evidence: null, conclusiveAtMs: null };
    await steps.finish({ ...common, ...none, report: "could_not_ask", reason: found });
    return null;
  }
  await steps.finish({ ...common, report: found.report, ...recordOf(opened, found.finding) });
  return found.finding;
}

/** The finding; or, where the adapter gave no report that can be read, why not. */
function decide(
  report: Report,
  running: RunningOperation,
  opened: OpenInspection & { readonly kind: InspectionKind; readonly next: Next },
  secrets: Secrets,
): { readonly finding: ReadableFinding; readonly report: string } | string {
  try {
    const facts = { ...opened, uncertain: opened.state === "uncertain" };
    const finding = decideFinding(report, { ...running.rules, secrets }, facts);
    return finding.decision === "unreadable" ? finding.reason : { finding, report: report.report };
  } catch (thrown) {
    return `the adapter's report is unusable: ${describeThrown(thrown, (text) => secrets.strikeOut(text))}`;
  }
}

async function ask(
  running: RunningOperation,
  opened: OpenInspection,
  kind: InspectionKind,
  secrets: Secrets,
): Promise<AdapterEnd<Report>> {
  const { definition, contract } = running.operation;
  const longestMs = kind === "resubmit" ? contract.dispatchTimeoutMs : contract.reconcileTimeoutMs;
  const timeoutMs = Math.min(longestMs, opened.remainingMs);
  if (timeoutMs <= 0) return { end: "threw", reason: "the request's deadline has passed" };
  const effect = boundEffect(opened.effectId, opened.key, opened.attempt, opened);
  const verb = kind === "lookup" ? "reconcile" : kind;
  return callAdapter<Report>(
    (context: AdapterContext) =>
      definition[verb]?.(effect, context) ?? { report: "unknown", reason: "the operation has no lookup" },
    { timeoutMs, secrets },
  );
}

/** What a finding records. */
function recordOf(
  opened: OpenInspection,
  finding: ReadableFinding,
): Pick<FoundItem, "reason" | "outcome" | "evidence" | "conclusiveAtMs"> {
  const common = { effectId: opened.effectId, tokenHash: null, via: "reconcile" as const };
  const none = { reason: null, outcome: null, evidence: null, conclusiveAtMs: null };
  switch (finding.decision) {
    case "outcome":
      return { ...none, outcome: { ...common, ...finding } };
    case "uncertain": {
      const { evidence, reason, resolution, settlements } = finding;
      const standing = resolution === null ? null : ("settled" as const);
      const held = { outcome: "uncertain", evidence, reference: null, resolution, standing, settlements } as const;
      return { ...none, reason, outcome: { ...common, ...held } };
    }
    case "goes_on":
      return { ...none, reason: `a ${finding.to} follows`, evidence: finding.evidence };
    case "nothing": {
      const { reason, evidence, conclusiveAtMs } = finding;
      return { ...none, reason, evidence, conclusiveAtMs };
    }
  }
}
