/**
 * Preparation (protocol, section 4): parse the input, let the adapter resolve what exactly will be done, and bind that.
 * It may read at the recipient, never write there. Load facts, decide, write.
 */
import { randomBytes } from "node:crypto";
import { callAdapter } from "../adapter/call.ts";
import { type Amounts, checkAmounts } from "../core/amount.ts";
import { type Binding, makeBinding } from "../core/binding.ts";
import { laneOf, maximumCost } from "../core/contract.ts";
import { RETRY_AFTER_MS } from "../core/denial.ts";
import { LedgerError } from "../core/error.ts";
import type { PolicyFacts } from "../core/facts.ts";
import type { AnyOperation, Preparation } from "../core/operation.ts";
import { keptText } from "../core/outcome.ts";
import { choosePolicy } from "../core/policy.ts";
import type { BindAgain } from "../core/rebind.ts";
import type { Secrets } from "../core/secret.ts";
import type { DeclinedReason } from "../core/state.ts";
import { cleanText, describeThrown } from "../core/text.ts";
import { type RunningOperation, type Runtime, secretsOf } from "../runtime.ts";
import type { LoadedEffect, PreparedItem } from "../store/effects.ts";
import { readPreparation, refuseSecrets } from "./preparation.ts";

export type Prepared =
  | { readonly prepared: "bound"; readonly item: PreparedItem }
  | {
      readonly prepared: "declined";
      readonly reason: DeclinedReason;
      readonly code: string;
      readonly detail: Readonly<Record<string, string>>;
    }
  /** The adapter could not read what it needs: tried again until the request expires. */
  | { readonly prepared: "later"; readonly retryAfterMs: number; readonly detail: Readonly<Record<string, string>> };

/** Prepares an effect as its next revision. Writes nothing. @param because why it is prepared */
export async function prepare(
  runtime: Runtime,
  running: RunningOperation,
  effect: LoadedEffect,
  because: BindAgain | "first",
): Promise<Prepared> {
  const { definition, contract } = running.operation;
  const hopeless = whyHopeless(effect);
  if (hopeless) return { prepared: "declined", reason: "denied", code: hopeless, detail: {} };
  const parsed = await definition.input.safeParseAsync(effect.input);
  if (!parsed.success) return declined("input_invalid", describeIssues(parsed.error.issues));
  const secrets = secretsOf(runtime, running);
  // What comes back is whatever an adapter returns: an answer only once it was read.
  const end = await callAdapter<unknown>(
    (context) =>
      definition.prepare ? definition.prepare(parsed.data, context) : plainPreparation(running.operation, parsed.data),
    { timeoutMs: contract.dispatchTimeoutMs, secrets },
  );
  if (end.end !== "returned") {
    const left = effect.expiresAtMs - effect.nowMs;
    return {
      prepared: "later",
      retryAfterMs: Math.min(RETRY_AFTER_MS.preparation, left),
      detail: { reason: cleanText(end.reason, 500) },
    };
  }
  try {
    const preparation = readPreparation(end.value, secrets);
    if ("invalid" in preparation) {
      return declined("preparation_invalid", keptText(preparation.invalid, secrets, 500));
    }
    const cost = lowerCost(maximumCost(definition.contract ?? {}, parsed.data), preparation.cost);
    const lane = laneOf(definition.contract ?? {}, parsed.data);
    refuseSecrets(secrets, { lane });
    const rebound = because !== "first" && because !== "stale";
    return { prepared: "bound", item: { ...bind(runtime, running, effect, preparation, cost), lane, rebound } };
  } catch (error) {
    const code = error instanceof LedgerError && OWN_CODES.has(error.code) ? error.code : "preparation_invalid";
    return declined(code, wordsOf(error, secrets));
  }
}

/** What is declined under its own code; anything else that cannot be bound is `preparation_invalid`. */
const OWN_CODES = new Set(["binding_too_large", "payload_too_large", "secret_bound"]);

/** What happened and, where we know it, what to do: the record is all that the adapter's author sees of it. */
function wordsOf(error: unknown, secrets: Secrets): string {
  if (error instanceof LedgerError && error.hint !== undefined) {
    return keptText(`${error.message} (${error.hint})`, secrets);
  }
  return describeThrown(error, (text) => secrets.strikeOut(text));
}

/** An adapter may read only for what some live policy could cover, and only in code that the owner could have allowed. */
function whyHopeless(effect: LoadedEffect): "operation_not_allowed" | "policy_missing" | null {
  if (!effect.protected) return null;
  if (effect.allowedImplementation === null) return "operation_not_allowed";
  return effect.policies.length === 0 ? "policy_missing" : null;
}

/** Without a `prepare`, what was asked for is what is done. */
function plainPreparation(operation: AnyOperation, input: unknown): Preparation<unknown> {
  return { target: operation.definition.name, payload: input };
}

function bind(
  runtime: Runtime,
  running: RunningOperation,
  effect: LoadedEffect,
  preparation: Preparation<unknown>,
  cost: Amounts,
): Omit<PreparedItem, "lane" | "rebound"> {
  const { contract } = running.operation;
  const policy = policyFor(effect, preparation.target, cost);
  const binding: Binding = makeBinding({
    ledger: effect.ledgerId,
    effect: effect.effectId,
    operation: effect.operation,
    version: effect.version,
    implementation: running.implementation,
    release: runtime.release,
    account: preparation.account ?? null,
    target: preparation.target,
    precondition: preparation.precondition ?? null,
    task: effect.taskId,
    subject: effect.subject,
    actor: effect.actor,
    policy: policy?.name ?? null,
    policy_revision: policy ? policy.revision : null,
    expires_at_ms: effect.expiresAtMs,
    payload: preparation.payload,
    maximumCost: cost,
    preview: preparation.preview ?? `${effect.operation} ${preparation.target}`,
    salt: randomBytes(16),
    bindingBytesMax: contract.bindingBytesMax,
  });
  return {
    effectId: effect.effectId,
    revision: (effect.revision ?? 0) + 1,
    binding,
    implementation: running.implementation,
    release: runtime.release,
    policyId: policy?.policyId ?? null,
    cost,
    expiresAtMs: effect.expiresAtMs,
  };
}

/** The policy that is bound: the owner's narrowest that covers it, or the ordinary one for what is not protected. */
function policyFor(effect: LoadedEffect, target: string, cost: Amounts): PolicyFacts | null {
  const ordinary = effect.policies.find(({ kind }) => kind === "ordinary");
  if (ordinary) return ordinary;
  const { operation, version, actor, lineage } = effect;
  const owners = effect.policies.flatMap((policy) => (policy.kind === "owner" ? [policy] : []));
  return choosePolicy(owners, { operation, version, actor, lineage, target, cost });
}

/** `prepare` may lower the contract's maximum, never raise it or add a unit. */
function lowerCost(maximum: Amounts, prepared: Amounts | undefined): Amounts {
  if (prepared === undefined) return maximum;
  for (const [unit, amount] of Object.entries(checkAmounts(prepared))) {
    if (amount > (maximum[unit] ?? 0n)) {
      throw new LedgerError("preparation_invalid", `prepare raised the cost in ${unit} above the contract's maximum`, {
        hint: "declare the maximum in contract.cost; prepare may only lower it",
      });
    }
  }
  return { ...maximum, ...prepared };
}

function declined(code: string, reason: string): Prepared {
  return { prepared: "declined", reason: "invalid", code, detail: { reason } };
}

/** The schema's issues in one line: paths and words, never the values. */
function describeIssues(
  issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[],
): string {
  return cleanText(issues.map(({ path, message }) => `/${path.map(String).join("/")}: ${message}`).join("; "), 500);
}
