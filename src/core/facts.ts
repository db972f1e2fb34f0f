/** What an admission decides from: everything that its transaction locked (protocol, section 5). Types only. */
import type { Amounts } from "./amount.ts";
import type { ApprovalFacts } from "./approval.ts";
import type { Policy } from "./policy.ts";
import type { State } from "./state.ts";

export interface TaskFacts {
  readonly name: string;
  readonly ended: boolean;
  readonly revoked: boolean;
  readonly deadlineMs: number | null;
}

/** Something that stands paused now: an operation, a task by name, a beginning of targets, or everything. */
export interface Pause {
  readonly scope: "operation" | "task" | "target" | "all";
  readonly target: string;
  readonly reason: string;
}

export interface BudgetFacts {
  readonly taskId: string;
  readonly unit: string;
  readonly limit: bigint;
  readonly reserved: bigint;
  readonly spent: bigint;
  readonly overrun: bigint;
  /** By a recovery, until the owner sets it again. */
  readonly suspended: boolean;
}

/** The built-in policy of unprotected operations has no coverage of its own. */
export interface OrdinaryPolicy {
  readonly kind: "ordinary";
  readonly policyId: string;
  readonly name: string;
  readonly revision: number;
  readonly revoked: boolean;
}

/** A policy of the owner's, with what was used of it. */
export interface OwnersPolicy extends Policy {
  readonly kind: "owner";
  readonly revoked: boolean;
  /** By a recovery, until the owner confirms it. */
  readonly suspended: boolean;
  readonly expiresAtMs: number | null;
  readonly admissionsMax: bigint | null;
  readonly admissionsUsed: bigint;
  /** The most effects of it that may be open at once, and how many are. */
  readonly openMax: bigint | null;
  readonly openNow: bigint;
  readonly approvers: readonly string[];
  readonly requesterExcluded: boolean;
  /** It wants a precondition that the recipient enforces. */
  readonly preconditionEnforced: boolean;
  readonly preparedWithinMs: number | null;
}
export type PolicyFacts = OrdinaryPolicy | OwnersPolicy;

export interface OperationFacts {
  readonly name: string;
  readonly version: number;
  readonly withdrawn: boolean;
  /** By its owner, or because the ledger is strict. */
  readonly protected: boolean;
  /** The implementation that the owner allowed; `null` where none is. */
  readonly allowedImplementation: string | null;
}

/** Evidence about an effect that another one follows: that it happened, or that disagrees with what was recorded. */
export interface PredecessorFacts {
  readonly effectId: string;
  readonly said: "accepted" | "contradicted";
}

/** What the process that would send it runs. */
export interface Running {
  readonly implementation: string;
  readonly release: string;
  readonly precondition: "enforced" | "none";
  readonly preparedWithinMs: number | null;
}

export interface EffectFacts {
  readonly effectId: string;
  readonly state: State;
  readonly lineage: readonly string[];
  readonly actor: string;
  readonly requestedBy: string;
  /** Its actor, or the role that spoke for it, still has the right to request (protocol, section 5, check 3). */
  readonly entitled: boolean;
  readonly onDenial: "wait" | "decline";
  readonly notBeforeMs: number | null;
  readonly expiresAtMs: number;
  readonly preparedAtMs: number;
  readonly revision: number;
  /** How often it was prepared again because what had been bound no longer held. */
  readonly rebindings: number;
  readonly digest: string;
  readonly implementation: string;
  readonly release: string;
  readonly running: Running;
  readonly target: string;
  /** True where the binding states a precondition. */
  readonly conditional: boolean;
  readonly operation: OperationFacts;
  /** The policy that was bound; `null` where none covered it. */
  readonly policyId: string | null;
  readonly cost: Amounts;
  readonly lane: string | null;
  /** What it tries again, if anything. */
  readonly follows: string | null;
  /** What is said of an effect that it follows, directly or through others, and stands against trying again. */
  readonly against: PredecessorFacts | null;
  readonly bytesMatch: boolean;
  /** It names the invocation that asked, and that one has ended. */
  readonly invocationEnded: boolean;
  readonly payloadMatch: boolean;
}

/** Everything that one admission locks and decides from. */
export interface AdmissionFacts {
  readonly nowMs: number;
  readonly ledgerId: string;
  readonly epoch: string;
  readonly identity: "ok" | "standby" | "unacknowledged";
  /** True from a violation found until it is acknowledged. */
  readonly violated: boolean;
  /** False where an admission that was confirmed to this process is gone. */
  readonly remembered: boolean;
  readonly durabilityGap: string | null;
  readonly tasks: ReadonlyMap<string, TaskFacts>;
  readonly actors: ReadonlyMap<string, { readonly revoked: boolean }>;
  readonly policies: ReadonlyMap<string, PolicyFacts>;
  /** By effect. */
  readonly approvals: ReadonlyMap<string, readonly ApprovalFacts[]>;
  readonly pauses: readonly Pause[];
  readonly budgets: readonly BudgetFacts[];
  /** Lanes with an open effect, as `laneKey` writes them. */
  readonly busyLanes: ReadonlySet<string>;
  readonly effects: readonly EffectFacts[];
}

/** One lane of one operation. */
export function laneKey(operation: string, lane: string): string {
  return `${operation} ${lane}`;
}
