/** The public names of pg-effects, and nothing else. */
export type { Amounts } from "./core/amount.ts";
export type { ContractDeclaration } from "./core/contract.ts";
export { LedgerError } from "./core/error.ts";
export type { InlineEnd } from "./core/inline.ts";
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
export type { Cleaned, DispatchReport, FenceReport, ReconcileReport, ResubmitReport } from "./core/report.ts";
export { absent, accepted, ambiguous, cleaned, failed, fenced, notSent, reached, unknown } from "./core/report.ts";
export { EffectUnresolvedError } from "./core/unresolved-error.ts";
export type { InlineContext, InlineFunctions, InlineOptions } from "./inline/effect.ts";
export type { Run, RunOptions } from "./inline/run.ts";
export { type FindOptions, type Ledger, type LedgerOptions, openLedger, type WorkerOptions } from "./ledger.ts";
export type { Inbox, Notice, NoticesClient, NoticesHandler, NoticesOptions } from "./observe/notices.ts";
export type { Found, Standing } from "./observe/standing.ts";
export type { CallersClient } from "./request/client.ts";
export type { Concerned, PauseOptions, ResumeOptions } from "./request/control.ts";
export type { Invocation, InvocationOutcome } from "./request/invocation.ts";
export type {
  Cancelled,
  EnqueueOptions,
  ReconcileOptions,
  RequestedOfMany,
  RequestOfMany,
  Statement,
  TaskOptions,
} from "./request/request.ts";
export type { Working } from "./worker/work.ts";
