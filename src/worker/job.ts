/**
 * The life of a job, top to bottom: load, prepare, admit, dispatch, settle. A job that is delivered again, force-unlocked
 * or added twice finds what was recorded and stops: only an admission of this very call leads to a send.
 */
import { type Admission, type Admitted, admit, type Candidate } from "../admit/admit.ts";
import { LedgerError } from "../core/error.ts";
import type { Running } from "../core/facts.ts";
import { type BindAgain, REBINDINGS_MAX, whyBindAgain } from "../core/rebind.ts";
import { describeThrown } from "../core/text.ts";
import { dispatch } from "../dispatch/dispatch.ts";
import { prepare } from "../prepare/prepare.ts";
import { type RunningOperation, type Runtime, runningFacts } from "../runtime.ts";
import { type Report, type ReportFate, settle } from "../settle/settle.ts";
import {
  type LoadedEffect,
  loadEffects,
  type PreparedItem,
  recordDeclined,
  recordPrepared,
  recordWaiting,
  requeue,
} from "../store/effects.ts";
import { gateOf, isPassing, pause, transact } from "../store/transaction.ts";
import { Combiner, Turn } from "./combiner.ts";

/** The steps that a process's jobs take together. */
export interface Steps {
  readonly load: Combiner<string, LoadedEffect | undefined>;
  readonly bind: Combiner<PreparedItem, boolean>;
  admit(candidate: Candidate): Promise<Admission>;
  settle(report: Report): Promise<ReportFate>;
}

/** Admissions and settlements run on so many connections at once; more were slower when it was measured. */
const TRACKS = 2;

/** The combiners of a worker process. */
export function openSteps(runtime: Runtime): Steps {
  // On one track settlement and admission take turns. A batch takes one gate alone, and a gate is one track's alone: so
  // batches of a process never wait for each other in the database.
  const tracks = Array.from({ length: TRACKS }, () => {
    const turn = new Turn();
    const part = ({ root }: { readonly root: string }) => gateOf(root);
    return {
      admit: new Combiner<Candidate, Admission>((candidates) => admit(runtime, candidates), turn, undefined, part),
      settle: new Combiner<Report, ReportFate>((reports) => settle(runtime, reports), turn, undefined, part),
    };
  });
  const trackOf = (root: string) => tracks[gateOf(root) % TRACKS] as (typeof tracks)[number];
  return {
    load: new Combiner((ids) => loadEffects(runtime.pool, ids)),
    bind: new Combiner((items) => recordBindings(runtime, items)),
    admit: (candidate) => trackOf(candidate.root).admit.submit(candidate),
    settle: (report) => trackOf(report.root).settle.submit(report),
  };
}

/** Runs one effect's job. Throws only for faults: the queue then tries again, and the ledger decides what that may do. */
export async function runJob(
  runtime: Runtime,
  steps: Steps,
  running: RunningOperation,
  effectId: string,
): Promise<void> {
  const effect = await steps.load.submit(effectId);
  if (!effect) throw new LedgerError("effect_unknown", `there is no effect ${effectId}`, { effectId });
  if (effect.state !== "requested" && effect.state !== "prepared") return;
  if (runtime.stopping) return requeue(runtime.pool, [effectId]);
  if (effect.expiresAtMs <= effect.nowMs) return declineExpired(runtime, effectId);
  if (!mayRun(effect, running)) return leaveToAnother(runtime, effect, running);

  const runs = runningFacts(runtime, running);
  const again = bindAgain(effect, runs);
  if (again !== null && !(await prepareAndBind(runtime, steps, running, effect, again))) return;
  if (runtime.stopping) return requeue(runtime.pool, [effectId]);
  const admission = await steps.admit({
    effectId,
    key: effect.key,
    root: effect.lineage[0] as string,
    running: runs,
    dispatchTimeoutMs: running.operation.contract.dispatchTimeoutMs,
    cleanup: running.operation.contract.cleanup === "required",
  });
  if (admission.admission !== "admitted") return;
  await dispatchAndSettle(runtime, steps, running, admission.admitted);
}

/** Whoever finds it may say so, whatever it runs. */
async function declineExpired(runtime: Runtime, effectId: string): Promise<void> {
  await recordDeclined(runtime.pool, runtime.worker, [
    { effectId, reason: "expired", code: "binding_expired", detail: {} },
  ]);
}

/** This process has the version asked for and, where the owner protects the operation, the implementation allowed. */
function mayRun(effect: LoadedEffect, { operation, implementation }: RunningOperation): boolean {
  if (effect.version !== operation.definition.version) return false;
  // Where nothing is allowed yet, admission says so.
  return !effect.protected || effect.allowedImplementation === null || effect.allowedImplementation === implementation;
}

/** Why it is prepared, or null; a binding that keeps changing is left to admission to decline. */
function bindAgain(effect: LoadedEffect, runs: Running): BindAgain | "first" | null {
  const { bound } = effect;
  if (effect.state === "requested" || !bound) return "first";
  const again = whyBindAgain({ ...bound, operation: { protected: effect.protected } }, runs, effect.nowMs);
  return again !== null && again !== "stale" && bound.rebindings >= REBINDINGS_MAX ? null : again;
}

/** True where the effect is bound now. */
async function prepareAndBind(
  runtime: Runtime,
  steps: Steps,
  running: RunningOperation,
  effect: LoadedEffect,
  because: BindAgain | "first",
): Promise<boolean> {
  const { effectId } = effect;
  const prepared = await prepare(runtime, running, effect, because);
  switch (prepared.prepared) {
    case "bound":
      if (await steps.bind.submit(prepared.item)) return true;
      // It moved on meanwhile, or an earlier try of ours stood after all: a fresh look decides.
      await requeue(runtime.pool, [effectId]);
      return false;
    case "declined":
      await recordDeclined(runtime.pool, runtime.worker, [
        { effectId, reason: prepared.reason, code: prepared.code, detail: prepared.detail },
      ]);
      return false;
    case "later": {
      const { retryAfterMs, detail } = prepared;
      await recordWaiting(runtime.pool, runtime.worker, [
        { effectId, code: "preparation_failed", waitingFor: "preparation", retryAfterMs, detail },
      ]);
      return false;
    }
  }
}

async function recordBindings(runtime: Runtime, items: readonly PreparedItem[]): Promise<readonly boolean[]> {
  return transact(runtime.pool, { isolation: "read committed" }, async (client) => {
    let bound: ReadonlySet<string> = new Set();
    const last = recordPrepared(client, runtime.worker, items).then((recorded) => {
      bound = recorded;
    });
    return { last, result: () => items.map(({ effectId }) => bound.has(effectId)) };
  });
}

async function dispatchAndSettle(
  runtime: Runtime,
  steps: Steps,
  running: RunningOperation,
  admitted: Admitted,
): Promise<void> {
  const { effect, root, tokenHash } = admitted;
  const dispatched = await dispatch(runtime, running, admitted);
  const about = { effectId: effect.id, root, tokenHash };
  // An adapter that ignored its signal may still answer: that is recorded when it does, and nobody waits for it.
  void dispatched.later
    ?.then((decision) => record(runtime, steps, { ...about, decision, ended: true }))
    .catch((error: unknown) =>
      runtime.log("error", `a late report of effect ${effect.id} was lost: ${describeThrown(error)}`),
    );
  await record(runtime, steps, { ...about, decision: dispatched.decision, ended: dispatched.ended });
}

/** A report is tried so often, over some ten minutes: a database that is away for longer leaves the effect unresolved. */
const RECORD_TRIES_MAX = 120;

/** What the database refuses it will refuse again; a second look tells a bug from bad luck. */
const REFUSED_TRIES_MAX = 3;

async function record(runtime: Runtime, steps: Steps, report: Report): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await steps.settle(report);
      return;
    } catch (error) {
      if (attempt >= (isPassing(error) ? RECORD_TRIES_MAX : REFUSED_TRIES_MAX)) throw error;
      runtime.log("warning", `the report of effect ${report.effectId} is recorded again: ${describeThrown(error)}`);
      await pause(Math.min(5_000, 100 * 2 ** attempt));
    }
  }
}

/** Of a version or an implementation that this process does not have: a worker that has it takes it up. */
async function leaveToAnother(runtime: Runtime, effect: LoadedEffect, running: RunningOperation): Promise<void> {
  const otherVersion = effect.version !== running.operation.definition.version;
  await recordWaiting(runtime.pool, runtime.worker, [
    {
      effectId: effect.effectId,
      code: "implementation_changed",
      waitingFor: "worker",
      retryAfterMs: Math.min(5_000, effect.expiresAtMs - effect.nowMs),
      detail: otherVersion
        ? { version: String(effect.version) }
        : { runs: running.implementation, allowed: effect.allowedImplementation ?? "" },
    },
  ]);
}
