/**
 * An operation: a registered kind of effect. `defineOperation` returns a function, as graphile-worker's loader wants,
 * that carries the operation; only a pg-effects worker runs it.
 */
import type { z } from "zod";
import type { Amounts } from "./amount.ts";
import { type Contract, type ContractDeclaration, completeContract, mayEverResubmit } from "./contract.ts";
import { LedgerError } from "./error.ts";
import type { Cleaned, DispatchReport, FenceReport, ReconcileReport, ResubmitReport } from "./report.ts";

/** Operation name = file name = job handler. graphile-worker cuts a file name at its first dot. */
export const OPERATION_NAME_PATTERN = /^[a-z][a-z0-9_]{0,62}$/;

/** The operation of what hosts run themselves (`ledger.run`): no file has this name. */
export const INLINE_OPERATION = "inline";

/** What `prepare` resolved: exactly what will be done. The core serialises and digests it. */
export interface Preparation<Payload> {
  /** The actual object that will change, by id and revision; not an alias or a label. */
  readonly target: string;
  /** Under which account at the recipient it is done. Not its secret. */
  readonly account?: string;
  readonly payload: Payload;
  /** What the recipient must still find when the effect arrives, for example an expected revision. */
  readonly precondition?: unknown;
  /** May lower the contract's maximum cost, never raise it. */
  readonly cost?: Amounts;
  /** The one safe line that a person is shown. Default: operation and target. */
  readonly preview?: string;
}

export interface Invalid {
  readonly invalid: string;
}

/** `prepare`'s answer for a request that can never be carried out: it is declined. */
export function invalid(reason: string): Invalid {
  return { invalid: reason };
}

/** An admitted effect as its adapter sees it: exactly the bytes that admission hashed. */
export interface BoundEffect<Payload> {
  readonly id: string;
  /** 32 hex digits, stable: our identity at the recipient, and the only one. */
  readonly key: string;
  readonly account: string | null;
  readonly target: string;
  readonly payload: Payload;
  readonly precondition: unknown;
  /** The attempt's id, safe to log. Never its token. */
  readonly attempt: string;
}

export interface AdapterContext {
  /** Aborts at the deadline. An adapter must end what it started then. */
  readonly signal: AbortSignal;
  /** When the window ends, by this process's clock. */
  readonly deadline: Date;
  /** A secret that the contract declares. @throws LedgerError `secret_missing` */
  secret(name: string): string;
}

export interface DispatchContext extends AdapterContext {
  /** Stores what the recipient named so far, before the final answer. */
  reference(value: string): Promise<void>;
  /** Before each further protected step: throws when the window has passed or authority is gone. */
  assertAuthority(): Promise<void>;
}

/** `Given` is what a caller writes, before the schema's defaults; `Input` what `prepare` gets. */
export interface OperationDefinition<Input, Proof, Payload, Given = Input> {
  readonly name: string;
  readonly version: number;
  /** Versions whose effects this code can look up. Default: its own. */
  readonly reconciles?: readonly number[];
  readonly input: z.ZodType<Input, Given>;
  readonly proof?: z.ZodType<Proof>;
  readonly contract?: ContractDeclaration<Input, Proof>;
  readonly prepare?: (
    input: Input,
    context: AdapterContext,
  ) => Promise<Preparation<Payload> | Invalid> | Preparation<Payload> | Invalid;
  readonly dispatch: (
    effect: BoundEffect<Payload>,
    context: DispatchContext,
  ) => Promise<DispatchReport<Proof>> | DispatchReport<Proof>;
  readonly reconcile?: (effect: BoundEffect<Payload>, context: AdapterContext) => Promise<ReconcileReport<Proof>>;
  readonly fence?: (effect: BoundEffect<Payload>, context: AdapterContext) => Promise<FenceReport<Proof>>;
  /** Sends the same key and bytes again, to learn what became of them: only where `contract.idempotency` proves it harmless. */
  readonly resubmit?: (effect: BoundEffect<Payload>, context: AdapterContext) => Promise<ResubmitReport<Proof>>;
  /**
   * Removes what the effect left of ours at the recipient, and nothing else, once its effect is settled; again where it was
   * there before: it may run after any outcome, and more than once. A throw leaves it owed.
   */
  readonly cleanup?: (effect: BoundEffect<Payload>, context: AdapterContext) => Promise<Cleaned> | Cleaned;
}

/** An operation as the loader sees it: a job handler that carries its definition and completed contract. */
export interface Operation<Input = unknown, Proof = unknown, Payload = unknown, Given = Input> {
  (payload: unknown, helpers: unknown): Promise<void>;
  readonly definition: OperationDefinition<Input, Proof, Payload, Given>;
  readonly contract: Contract;
}

/** What a request needs of an operation: its name, and what a caller may give. */
export interface Requestable<Given> {
  readonly definition: { readonly name: string; readonly input: z.ZodType<unknown, Given> };
}

/** What reading an outcome needs of an operation: the type of its proof. */
export interface Proving<Proof> {
  readonly definition: { readonly proof?: z.ZodType<Proof> };
}

/** Any operation, for lists of them: its functions' arguments are only known to itself. */
// biome-ignore lint/suspicious/noExplicitAny: input, proof and payload are contravariant in the adapter's functions
export type AnyOperation = Operation<any, any, any, any>;

/**
 * Defines an operation.
 * @throws LedgerError `operation_invalid` for a bad name or version, `contract_invalid`
 */
export function defineOperation<Input, Proof, Payload, Given = Input>(
  definition: OperationDefinition<Input, Proof, Payload, Given> & {
    readonly prepare: NonNullable<OperationDefinition<Input, Proof, Payload>["prepare"]>;
  },
): Operation<Input, Proof, Payload, Given>;
export function defineOperation<Input, Proof, Given>(
  definition: OperationDefinition<Input, Proof, Input, Given> & { readonly prepare?: never },
): Operation<Input, Proof, Input, Given>;
/** From another operation's definition, with parts of it replaced. */
export function defineOperation<Input, Proof, Payload, Given>(
  definition: OperationDefinition<Input, Proof, Payload, Given>,
): Operation<Input, Proof, Payload, Given>;
export function defineOperation<Input, Proof, Payload, Given = Input>(
  definition: OperationDefinition<Input, Proof, Payload, Given>,
): Operation<Input, Proof, Payload, Given> {
  const { name, version } = definition;
  if (!OPERATION_NAME_PATTERN.test(name)) {
    throw new LedgerError("operation_invalid", `operation name ${JSON.stringify(name)} is refused`, {
      hint: `an operation is named ${OPERATION_NAME_PATTERN.source}, like its file`,
    });
  }
  if (name === INLINE_OPERATION) {
    throw new LedgerError("operation_invalid", `the operation name ${name} is taken`, {
      hint: "it stands for what ledger.run records: give another name",
    });
  }
  if (!Number.isInteger(version) || version < 1 || version > 2_147_483_647) {
    throw new LedgerError("operation_invalid", `version ${String(version)} of ${name} is refused`, {
      hint: "a version is an integer from 1",
    });
  }
  for (const other of definition.reconciles ?? []) {
    if (!Number.isInteger(other) || other < 1 || other > 2_147_483_647) {
      throw new LedgerError("operation_invalid", `${name} reconciles version ${String(other)}`, {
        hint: "name versions, integers from 1",
      });
    }
  }
  const contract = completeContract(definition.contract ?? {});
  if ((contract.fence === null) !== (definition.fence === undefined)) {
    throw new LedgerError(
      "contract_invalid",
      `${name} has a fence in its ${definition.fence ? "adapter" : "contract"} only`,
      {
        hint: "declare contract.absence.fence and implement fence, or neither",
      },
    );
  }
  if ((contract.cleanup === "required") !== (definition.cleanup !== undefined)) {
    throw new LedgerError(
      "contract_invalid",
      `${name} has a cleanup in its ${definition.cleanup ? "adapter" : "contract"} only`,
      { hint: 'declare contract.cleanup "required" and implement cleanup, or neither' },
    );
  }
  if (definition.resubmit && !mayEverResubmit(contract)) {
    throw new LedgerError("contract_invalid", `${name} has resubmit, and its contract does not prove it harmless`, {
      hint: 'declare contract.idempotency with mismatch "refused", concurrent "safe" and failure "saved"',
    });
  }
  const handler = async (): Promise<void> => {
    throw new LedgerError("worker_required", `${name} is an operation of pg-effects and was started as a plain task`, {
      hint: "start it with `pg-effects worker` or `ledger.work`, which admit an effect before they send it",
    });
  };
  return Object.assign(handler, { definition, contract }) as Operation<Input, Proof, Payload, Given>;
}

/** True for what `defineOperation` made. */
export function isOperation(candidate: unknown): candidate is AnyOperation {
  return typeof candidate === "function" && "definition" in candidate && "contract" in candidate;
}
