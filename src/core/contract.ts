/**
 * The contract: what an operation declares. What it does not declare it does not have; every default is the weaker claim.
 */
import { type Amounts, checkAmounts } from "./amount.ts";
import { LedgerError } from "./error.ts";

/** Timers beyond this fire at once in Node. */
export const TIMER_MS_MAX = 2_147_483_647;

/** The largest encoded binding, proof or event, in bytes of UTF-8, inclusive (protocol, section 10). */
export const RECORD_BYTES_MAX = 65_536;

/** What the recipient promises about a repeated request under the same key. */
export interface Idempotency {
  /** Within what a key is one request, for example `account`. */
  readonly scope: string;
  readonly retentionMs: number;
  readonly mismatch: "refused" | "ignored";
  readonly concurrent: "safe" | "unsafe";
  readonly failure: "saved" | "executed";
}

/** How long a void mark, and the effect's own mark, stand at the recipient. */
export interface FenceClaim {
  /** `kept`: for as long as the recipient keeps its data; otherwise milliseconds, counted from the admission. */
  readonly retentionMs: number | "kept";
}

/**
 * From when on a lookup that finds nothing proves that nothing happened, nor can. `dispatch`: so long after the end of the
 * dispatch is on record. `recipient`: so long after the dispatch's deadline, where each request carries that deadline and
 * the recipient refuses it afterwards.
 */
export interface AbsenceClaim {
  readonly conclusiveAfterMs: number;
  readonly endedBy: "dispatch" | "recipient";
}

export interface ContractDeclaration<Input = unknown, Proof = unknown> {
  /** The maximum cost per unit. Default: none. */
  readonly cost?: (input: Input) => Amounts;
  readonly dispatchTimeoutMs?: number;
  readonly reconcileTimeoutMs?: number;
  readonly expiresAfterMs?: number;
  readonly idempotency?: Idempotency;
  readonly precondition?: "enforced" | "none";
  readonly absence?: "inconclusive" | AbsenceClaim | { readonly fence: FenceClaim };
  /** The refusals that are conclusive, by code. `none`: nothing happened; `possible`: something may have. */
  readonly failures?: Readonly<Record<string, { readonly effect: "none" | "possible" }>>;
  /** What acceptance means, in one line. */
  readonly accepts?: string;
  readonly bindingBytesMax?: number;
  readonly proofBytesMax?: number;
  /** The recipient's own id in a proof, for find and audit. */
  readonly reference?: (proof: Proof) => string;
  /** Environment variables that dispatch and reconcile may read through `context.secret`. */
  readonly secrets?: readonly string[];
  /** An older binding is prepared again before it is admitted. Default: its age does not matter. */
  readonly preparedWithinMs?: number;
  /** At most one open effect of the operation for each lane, across all processes. Default: no lane. */
  readonly lane?: (input: Input) => string;
  /** Where the beginning of a target may end that a policy names, one character, for example `/`. Default: nowhere. */
  readonly targetDelimiter?: string;
  /** How often it is tried again by itself where an adapter says `againAfterMs`. Default: 5; protected operations 0. */
  readonly followMax?: number;
  /** `required`: each admission owes a cleanup, which `cleanup` of the adapter does. Default: none. */
  readonly cleanup?: "none" | "required";
}

/** A contract with every default filled in; this is what is registered, as JSON, and digested. */
export interface Contract {
  readonly dispatchTimeoutMs: number;
  readonly reconcileTimeoutMs: number;
  readonly expiresAfterMs: number;
  readonly idempotency: Idempotency | null;
  readonly precondition: "enforced" | "none";
  readonly fence: FenceClaim | null;
  readonly absence: AbsenceClaim | null;
  readonly failures: Readonly<Record<string, { readonly effect: "none" | "possible" }>>;
  readonly accepts: string;
  readonly bindingBytesMax: number;
  readonly proofBytesMax: number;
  readonly preparedWithinMs: number | null;
  /** True where the declaration has a lane: which one is the input's. */
  readonly lanes: boolean;
  readonly targetDelimiter: string | null;
  readonly secrets: readonly string[];
  /** Null: what applies where nothing is declared. */
  readonly followMax: number | null;
  readonly cleanup: "none" | "required";
}

/** More would be a schedule, and not a second try. */
const FOLLOW_MAX_MAX = 100;

/** The most characters of a lane. */
const LANE_LENGTH_MAX = 200;

/**
 * Fills in the defaults and refuses what cannot hold.
 * @throws LedgerError `contract_invalid`
 */
export function completeContract(declared: ContractDeclaration<never, never>): Contract {
  const absence = declared.absence ?? "inconclusive";
  const contract: Contract = {
    dispatchTimeoutMs: declared.dispatchTimeoutMs ?? 30_000,
    reconcileTimeoutMs: declared.reconcileTimeoutMs ?? 30_000,
    expiresAfterMs: declared.expiresAfterMs ?? 86_400_000,
    idempotency: declared.idempotency ?? null,
    precondition: declared.precondition ?? "none",
    fence: absence !== "inconclusive" && "fence" in absence ? absence.fence : null,
    absence: absence !== "inconclusive" && "conclusiveAfterMs" in absence ? absence : null,
    failures: declared.failures ?? {},
    accepts: declared.accepts ?? "the adapter reported acceptance",
    bindingBytesMax: declared.bindingBytesMax ?? 2_048,
    proofBytesMax: declared.proofBytesMax ?? 4_096,
    preparedWithinMs: declared.preparedWithinMs ?? null,
    lanes: declared.lane !== undefined,
    targetDelimiter: declared.targetDelimiter ?? null,
    secrets: declared.secrets ?? [],
    followMax: declared.followMax ?? null,
    cleanup: declared.cleanup ?? "none",
  };
  checkTimer("dispatchTimeoutMs", contract.dispatchTimeoutMs);
  checkTimer("reconcileTimeoutMs", contract.reconcileTimeoutMs);
  checkDuration("expiresAfterMs", contract.expiresAfterMs);
  if (contract.preparedWithinMs !== null) checkDuration("preparedWithinMs", contract.preparedWithinMs);
  const { followMax } = contract;
  if (followMax !== null && (!Number.isInteger(followMax) || followMax < 0 || followMax > FOLLOW_MAX_MAX)) {
    throw contractInvalid("followMax", followMax, `an integer from 0 to ${FOLLOW_MAX_MAX}`);
  }
  if (contract.cleanup !== "none" && contract.cleanup !== "required") {
    throw contractInvalid("cleanup", contract.cleanup, "none or required");
  }
  if (contract.targetDelimiter !== null && [...contract.targetDelimiter].length !== 1) {
    throw contractInvalid("targetDelimiter", JSON.stringify(contract.targetDelimiter), "one character");
  }
  if (contract.fence && contract.fence.retentionMs !== "kept") {
    checkDuration("absence.fence.retentionMs", contract.fence.retentionMs);
  }
  if (contract.absence) {
    const { conclusiveAfterMs, endedBy } = contract.absence;
    if (!Number.isSafeInteger(conclusiveAfterMs) || conclusiveAfterMs < 0) {
      throw contractInvalid("absence.conclusiveAfterMs", conclusiveAfterMs, "an integer of milliseconds from 0");
    }
    if (endedBy !== "dispatch" && endedBy !== "recipient") {
      throw contractInvalid("absence.endedBy", endedBy, "dispatch or recipient");
    }
  }
  if (contract.idempotency) checkDuration("idempotency.retentionMs", contract.idempotency.retentionMs);
  checkBytes("bindingBytesMax", contract.bindingBytesMax);
  checkBytes("proofBytesMax", contract.proofBytesMax);
  return contract;
}

/** True where a repeated request under the same key and bytes can make no second effect (protocol, section 7). */
export function mayEverResubmit({ idempotency }: Pick<Contract, "idempotency">): boolean {
  return idempotency?.mismatch === "refused" && idempotency.concurrent === "safe" && idempotency.failure === "saved";
}

/** The maximum cost that a contract declares for one input. */
export function maximumCost<Input>(declared: ContractDeclaration<Input, never>, input: Input): Amounts {
  return declared.cost ? checkAmounts(declared.cost(input)) : {};
}

/**
 * The lane of one input, or null where the contract has none.
 * @throws LedgerError `contract_invalid` where the declaration gives no short text.
 */
export function laneOf<Input>(declared: ContractDeclaration<Input, never>, input: Input): string | null {
  if (!declared.lane) return null;
  const lane: unknown = declared.lane(input);
  if (typeof lane !== "string" || lane === "" || lane.length > LANE_LENGTH_MAX) {
    throw contractInvalid(
      "lane",
      typeof lane === "string" ? JSON.stringify(lane.slice(0, 50)) : typeof lane,
      `a text of 1 to ${LANE_LENGTH_MAX} characters`,
    );
  }
  return lane;
}

function checkTimer(field: string, ms: number): void {
  if (!Number.isInteger(ms) || ms < 1 || ms > TIMER_MS_MAX) {
    throw contractInvalid(field, ms, `an integer from 1 to ${TIMER_MS_MAX} milliseconds`);
  }
}

function checkDuration(field: string, ms: number): void {
  if (!Number.isSafeInteger(ms) || ms < 1) throw contractInvalid(field, ms, "a positive integer of milliseconds");
}

function checkBytes(field: string, bytes: number): void {
  if (!Number.isInteger(bytes) || bytes < 1 || bytes > RECORD_BYTES_MAX) {
    throw contractInvalid(field, bytes, `an integer from 1 to ${RECORD_BYTES_MAX} bytes`);
  }
}

function contractInvalid(field: string, given: unknown, wanted: string): LedgerError {
  return new LedgerError("contract_invalid", `contract.${field} is ${String(given)}`, { hint: `give ${wanted}` });
}
