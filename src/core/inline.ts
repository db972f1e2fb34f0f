/**
 * Inline effects (protocol, section 8; ADR 0200): what is decided about them. Whether a call runs, asks, answers or is
 * refused follows from the record alone; a proof is decided as any operation's is. It never decides an admission: that is
 * admission.ts, for these as for all.
 */
import { decideAdmissions } from "./admission.ts";
import { type Binding, makeBinding } from "./binding.ts";
import { completeContract, RECORD_BYTES_MAX, TIMER_MS_MAX } from "./contract.ts";
import type { DenialCode } from "./denial.ts";
import { LedgerError } from "./error.ts";
import type { AdmissionFacts, Running } from "./facts.ts";
import { INLINE_OPERATION } from "./operation.ts";
import {
  type Decision,
  decideAccepted,
  decideNoEffect,
  type OutcomeDecision,
  type ProofRules,
  type StoredEvidence,
  storeEvidence,
} from "./outcome.ts";
import { NO_SECRETS } from "./secret.ts";
import type { State } from "./state.ts";
import { cleanText } from "./text.ts";
import { EffectUnresolvedError } from "./unresolved-error.ts";

/** How an inline effect ended, for good. A resolution that comes later changes nothing here. */
export type InlineEnd<Proof> =
  | { readonly outcome: "accepted"; readonly proof: Proof; readonly via: "run" | "reconcile" }
  | { readonly outcome: "uncertain" };

/** What names an inline effect: with the actor, its run and name are its identity. */
export interface InlineName {
  readonly run: string;
  readonly name: string;
}

/** Where an inline effect stands, as the record has it. */
export interface InlineFacts {
  readonly effectId: string;
  readonly key: string;
  readonly state: State;
  readonly via: string | null;
  /** The proof's canonical text; null where there is none, or it was purged. */
  readonly proof: string | null;
  /** So long its own process may still run it; null where that has passed or that process has reported. */
  readonly stillRunningMs: number | null;
  /** Of the ledger that this one was copied from. */
  readonly former: boolean;
}

/** What a call does next. `admit`: record an intent, and run; `reconcile`: an intent stands without an outcome. */
export type InlineNext =
  | { readonly next: "admit" }
  | { readonly next: "reconcile" }
  | { readonly next: "answer"; readonly end: InlineEnd<unknown> }
  | { readonly next: "reject"; readonly error: LedgerError };

/** Decides what a call does. @param found where its effect stands, or null where there is none */
export function decideCall(found: InlineFacts | null, asked: InlineName): InlineNext {
  if (!found) return { next: "admit" };
  const { effectId, proof } = found;
  switch (found.state) {
    case "accepted":
      if (proof === null) return reject(effectId, "proof_purged", `the proof of ${inWords(asked)} was purged`, "");
      return {
        next: "answer",
        end: {
          outcome: "accepted",
          proof: JSON.parse(proof) as unknown,
          via: found.via === "run" ? "run" : "reconcile",
        },
      };
    case "uncertain":
      return { next: "answer", end: { outcome: "uncertain" } };
    case "admitted":
      if (found.former) {
        return reject(
          effectId,
          "former_ledger",
          `${inWords(asked)} is of the ledger that this one was copied from`,
          "",
        );
      }
      if (found.stillRunningMs !== null) return { next: "reject", error: stillRunning(found, asked) };
      return { next: "reconcile" };
    default:
      return { next: "reject", error: neverRun(effectId, asked) };
  }
}

function reject(effectId: string, code: string, message: string, hint: string): InlineNext {
  return {
    next: "reject",
    error: new LedgerError(code, message, { hint: hint || "its record is in audit.effects", effectId }),
  };
}

function stillRunning({ effectId, stillRunningMs }: InlineFacts, asked: InlineName): EffectUnresolvedError {
  return new EffectUnresolvedError(
    `${inWords(asked)} may still run in another process for ${stillRunningMs} ms, and that process has not reported`,
    { code: "still_running", effectId, hint: "call it again after that; a host with a lease sets runTimeoutMs to 0" },
  );
}

/** An intent that its own process knows it never ran: nothing happened, and under this name nothing will. */
export function neverRun(effectId: string, asked: InlineName): LedgerError {
  return new LedgerError("never_run", `${inWords(asked)} was never run, and is recorded as no_effect`, {
    hint: "nothing happened, and nothing will under this name: use another one",
    effectId,
  });
}

/** `"charge" of run "order-42"`: as an error says it. */
export function inWords({ run, name }: InlineName): string {
  return `${JSON.stringify(name)} of run ${JSON.stringify(run)}`;
}

/** How long a reconcile may take, and for how long a run counts as running, in milliseconds (ADR 0200; protocol, section 8). */
export const RECONCILE_TIMEOUT_MS = 30_000;
/** How long an intent counts as possibly still running in another process, in milliseconds, where the caller says nothing. */
export const RUN_TIMEOUT_MS = 30_000;

/** The most characters of a run and of a name. */
const NAME_LENGTH_MAX = 200;

/**
 * Refuses what names no effect, before anything is recorded: U+0000 and half a surrogate pair would be stored as another
 * name.
 * @throws LedgerError `inline_invalid`
 */
export function checkInlineName({ run, name }: InlineName): void {
  for (const [what, text] of [
    ["a run", run],
    ["a name", name],
  ] as const) {
    const faithful = typeof text === "string" && text.isWellFormed() && !text.includes("\0");
    if (!faithful || text === "" || [...text].length > NAME_LENGTH_MAX) {
      throw invalid(
        `${what} is ${cleanText(String(JSON.stringify(text)), 50)}`,
        `give 1 to ${NAME_LENGTH_MAX} characters`,
      );
    }
  }
}

/** @throws LedgerError `inline_invalid` for a number that is no timer's; `least`: 0 where a timer may be switched off */
export function checkInlineTimer(option: string, ms: number, least: 0 | 1): void {
  if (Number.isInteger(ms) && ms >= least && ms <= TIMER_MS_MAX) return;
  throw invalid(`${option} is ${String(ms)}`, `give an integer from ${least} to ${TIMER_MS_MAX} milliseconds`);
}

/** @throws LedgerError `inline_invalid` unless both are functions: found out later, the intent would stand already */
export function checkInlineFunctions({ run, reconcile }: { readonly run: unknown; readonly reconcile: unknown }): void {
  if (typeof run === "function" && typeof reconcile === "function") return;
  throw invalid("run or reconcile is no function", "give both: reconcile is how a lost answer is found");
}

function invalid(message: string, hint: string): LedgerError {
  return new LedgerError("inline_invalid", message, { hint });
}

/** A proof is an identity that the recipient assigned, of at most 64 KiB of JSON; a run and name fit any binding. */
const CONTRACT = completeContract({ proofBytesMax: RECORD_BYTES_MAX, bindingBytesMax: RECORD_BYTES_MAX });
const RULES: ProofRules = {
  contract: CONTRACT,
  parseProof: (proof) => proof,
  reference: undefined,
  secrets: NO_SECRETS, // it declares none: what a host's code throws is not recorded in its own words
};

/** What a request of it returned, for its binding. */
export interface InlineRequest {
  readonly effectId: string;
  readonly key: string;
  readonly ledgerId: string;
  readonly actor: string;
  readonly taskId: string;
  readonly subject: string | null;
  readonly expiresAtMs: number;
  readonly policy: { readonly policyId: string; readonly name: string; readonly revision: number };
}

/** Binds it: the ledger, the run, the name and the actor. @param salt 16 random bytes */
export function bindInline(asked: InlineName, request: InlineRequest, release: string, salt: Buffer): Binding {
  const { run, name } = asked;
  return makeBinding({
    ledger: request.ledgerId,
    effect: request.effectId,
    operation: INLINE_OPERATION,
    version: 1,
    implementation: inlineRunning(release).implementation,
    release,
    account: null,
    target: `${run}/${name}`,
    precondition: null,
    task: request.taskId,
    subject: request.subject,
    actor: request.actor,
    policy: request.policy.name,
    policy_revision: request.policy.revision,
    expires_at_ms: request.expiresAtMs,
    payload: { actor: request.actor, ledger: request.ledgerId, name, run },
    maximumCost: {},
    preview: inWords(asked),
    salt,
    bindingBytesMax: CONTRACT.bindingBytesMax,
  });
}

/** What its process would run: code that is registered nowhere. */
export function inlineRunning(release: string): Running {
  return { implementation: INLINE_OPERATION, release, precondition: "none", preparedWithinMs: null };
}

/** Whether its intent may be recorded: the admission decision, of which it waits for nothing. */
export type IntentDecision =
  | { readonly intent: "admitted"; readonly permitExpiresAtMs: number; readonly digest: string }
  | { readonly intent: "refused"; readonly code: DenialCode; readonly detail: Readonly<Record<string, string>> };

/** Whether an inline intent may be written: the admission decision of a batch of one. */
export function decideIntent(facts: AdmissionFacts): IntentDecision {
  const [verdict] = decideAdmissions(facts);
  const [effect] = facts.effects;
  if (!verdict || !effect || verdict.verdict === "already")
    return { intent: "refused", code: "permit_consumed", detail: {} };
  if (verdict.verdict !== "admitted") return { intent: "refused", code: verdict.code, detail: verdict.detail };
  return { intent: "admitted", permitExpiresAtMs: verdict.permitExpiresAtMs, digest: effect.digest };
}

/** Decides what a run returned: its proof, or that nobody can tell from it. */
export function decideProof(proof: unknown): Decision {
  return decideAccepted({ report: "accepted", proof }, RULES, {});
}

/** What a reconcile found. Only null says that the recipient knows nothing of it; a forgotten `return` says nothing. */
export type InlineFinding = Decision | { readonly decision: "uncertain"; readonly evidence: StoredEvidence };

/** What an inline `reconcile` found: a proof, or `null` for "nobody can tell". */
export function decideFound(found: unknown): InlineFinding {
  if (found !== null) return decideProof(found);
  return { decision: "uncertain", evidence: storeEvidence({ found: null }, NO_SECRETS) };
}

/** What the holder of an intent reports that it never ran: `admission_unconfirmed` or `late`. */
export function decideNeverRun(code: "admission_unconfirmed" | "late"): OutcomeDecision {
  return decideNoEffect({ report: "notSent", evidence: { code } }, {}, NO_SECRETS);
}

/** What is recorded of something thrown: its kind. Its message is its caller's, and may hold what no record should. */
export function kindOf(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return thrown === null ? "null" : typeof thrown;
    const { code } = thrown as { code?: unknown };
    return cleanText(typeof code === "string" ? `${thrown.name} ${code}` : thrown.name, 100);
  } catch {
    return "something that cannot be read";
  }
}
