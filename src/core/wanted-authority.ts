/**
 * Authority as a reviewed file wants it, and as it stands: what a plan is made from. Types only. A field that is undefined
 * is not mentioned, and what is not mentioned is left alone.
 */

export interface WantedActor {
  readonly actor: string;
  readonly spoken_by: readonly { readonly login: string; readonly revoked: boolean }[];
  readonly revoked: boolean;
}

/** A root task. */
export interface WantedTask {
  readonly name: string;
  readonly subject: string | undefined;
  readonly actor: string | undefined;
  readonly deadline: Date | undefined;
  /** Limits per unit, as decimal strings. */
  readonly budgets: Readonly<Record<string, string>>;
  readonly revoked: boolean;
}

export interface WantedVersion {
  readonly version: number;
  /** The digest of the implementation that was reviewed. */
  readonly allowed_implementation: string | undefined;
  readonly withdrawn: boolean;
}

export interface WantedOperation {
  readonly operation: string;
  readonly protected: boolean;
  readonly versions: readonly WantedVersion[];
}

export interface WantedApprover {
  readonly approver: string;
  /** 64 hex digits; not mentioned: every key of theirs. */
  readonly public_key: string | undefined;
  readonly revoked: boolean;
}

/** What a policy covers and wants, in the words of effects.add_policy. */
export interface PolicyRules {
  readonly operation: string;
  readonly version: number;
  readonly task: string;
  readonly actor: string | null;
  readonly target: string | null;
  readonly target_match: "exact" | "prefix" | null;
  readonly costs: Readonly<Record<string, string>>;
  readonly admissions_max: string | null;
  readonly open_max: string | null;
  readonly approvals_needed: number;
  readonly approvers: readonly string[];
  readonly requester_excluded: boolean;
  readonly precondition_enforced: boolean;
  readonly prepared_within_ms: number | null;
  readonly expires_at: Date | null;
}

export interface WantedPolicy {
  readonly name: string;
  /** Null where it is only to be revoked. */
  readonly rules: PolicyRules | null;
}

/** Everything that a file says. */
export interface WantedAuthority {
  readonly ledger: { readonly name: string | undefined; readonly strict: boolean | undefined };
  readonly actors: readonly WantedActor[];
  readonly tasks: readonly WantedTask[];
  readonly operations: readonly WantedOperation[];
  readonly approvers: readonly WantedApprover[];
  readonly policies: readonly WantedPolicy[];
}

/** Of what a file mentions, what the ledger holds. */
export interface PresentAuthority {
  readonly ledger: { readonly name: string; readonly strict: boolean };
  readonly actors: readonly { readonly actor: string; readonly revoked: boolean }[];
  readonly speakers: readonly { readonly actor: string; readonly spoken_by: string }[];
  readonly tasks: readonly {
    readonly name: string;
    readonly root: boolean;
    readonly subject: string | null;
    readonly actor: string | null;
    readonly deadline: Date | null;
    /** Revoked or ended. */
    readonly over: boolean;
  }[];
  readonly budgets: readonly { readonly task: string; readonly unit: string; readonly limit: string }[];
  readonly operations: readonly {
    readonly operation: string;
    readonly version: number;
    readonly implementation: string;
    readonly allowed_implementation: string | null;
    readonly protected: boolean;
    readonly withdrawn: boolean;
  }[];
  readonly approvers: readonly {
    readonly key_id: string;
    readonly approver: string;
    readonly public_key: string;
    readonly revoked: boolean;
  }[];
  readonly policies: readonly { readonly name: string; readonly revoked: boolean; readonly rules: PolicyRules }[];
}

/** One call of one of the ledger's functions. */
export type AuthorityChange =
  | { readonly do: "revoke_policy"; readonly name: string }
  | { readonly do: "revoke_approver"; readonly approver: string }
  | { readonly do: "revoke_task"; readonly name: string }
  | { readonly do: "withdraw_operation"; readonly operation: string; readonly version: number }
  | { readonly do: "revoke_speaker"; readonly actor: string; readonly login: string }
  | { readonly do: "revoke_actor"; readonly actor: string }
  | { readonly do: "add_actor"; readonly actor: string; readonly login: string | null }
  | { readonly do: "open_root_task"; readonly task: WantedTask }
  | { readonly do: "set_budget"; readonly name: string; readonly unit: string; readonly limit: string }
  | { readonly do: "add_approver"; readonly approver: string; readonly public_key: string }
  | {
      readonly do: "allow_operation";
      readonly operation: string;
      readonly version: number;
      readonly implementation: string;
    }
  | { readonly do: "add_policy"; readonly name: string; readonly rules: PolicyRules }
  | { readonly do: "protect_operation"; readonly operation: string }
  | { readonly do: "set_ledger"; readonly strict: boolean };

export interface PlannedChange {
  /** Which entry of the file wants it: `tasks[0].budgets.usd_cents`. */
  readonly at: string;
  readonly kind: "added" | "changed" | "revoked";
  /** What it is: `budget usd_cents of task payments`. */
  readonly object: string;
  readonly before: string | null;
  readonly after: string | null;
  readonly change: AuthorityChange;
}

/** An entry that cannot be brought about, whatever is done. */
export interface Problem {
  readonly at: string;
  readonly says: string;
}
