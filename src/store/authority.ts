/** The texts of what an owner decides about protected operations, and of what approvers say. Values are the caller's. */

/** A row with `result`: operation, version, implementation, release, protected. */
export const ALLOW_OPERATION = "select effects.allow_operation($1, $2, $3, implementation => $4) as result";

/** A row with `result`: what of it waits, is in flight, is unresolved. */
export const PROTECT_OPERATION = "select effects.protect_operation($1, $2) as result";

/** A row with `policy_id`. */
export const ADD_POLICY =
  "select effects.add_policy($1, $2, $3, $4, task => $5, actor => $6, target => $7, target_match => $8, costs => $9::json," +
  " admissions_max => $10, open_max => $11, approvals_needed => $12, approvers => $13, requester_excluded => $14," +
  " precondition_enforced => $15, prepared_within => $16::float8 * interval '1 millisecond', expires_at => $17) as policy_id";

/** A row with `result`, as for a protection. */
export const REVOKE_POLICY = "select effects.revoke_policy($1, $2) as result";

/** A row with `key_id`. */
export const ADD_APPROVER = "select effects.add_approver($1, $2, $3) as key_id";

/** A row with `result`, as for a protection. */
export const REVOKE_APPROVER = "select effects.revoke_approver($1, $2) as result";

/** A row with `result`: effect_id, state, too_late. */
export const REVOKE_APPROVAL = "select effects.revoke_approval($1, $2) as result";

/** A row with nothing in it. */
export const REFUSE_EFFECT = "select effects.refuse($1, $2)";

/** A row with `approval_id`. */
export const SUBMIT_APPROVAL = "select effects.submit_approval($1, $2, $3) as approval_id";

/** A row with `result`: ledger, strict. */
export const SET_LEDGER = "select effects.set_ledger($1, $2) as result";
