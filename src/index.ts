/** The public names of pg-effects, and nothing else. */
export type { Amounts } from "./core/amount.ts";
export type { ContractDeclaration } from "./core/contract.ts";
export { LedgerError } from "./core/error.ts";
export {
  type AdapterContext,
  type BoundEffect,
  type DispatchContext,
  defineOperation,
  type Invalid,
  invalid,
  type Operation,
  type OperationDefinition,
  type Preparation,
} from "./core/operation.ts";
export type { DispatchReport, FenceReport, ReconcileReport } from "./core/report.ts";
export { absent, accepted, failed, fenced, notSent, unknown } from "./core/report.ts";
export { type Ledger, type LedgerOptions, openLedger, type WorkerOptions } from "./ledger.ts";
export type { Standing } from "./observe/standing.ts";
export type { CallersClient } from "./request/client.ts";
export type { Concerned, PauseOptions, ResumeOptions } from "./request/control.ts";
export type { EnqueueOptions, ReconcileOptions, Statement, TaskOptions } from "./request/request.ts";
export type { Working } from "./worker/work.ts";
