/** The texts of the public statements. Values are filled in by src/request, and run on whatever connection is the caller's. */

/** A row with `effect_id`. */
export const ENQUEUE =
  "select effects.enqueue($1, $2::json, task => $3, name => $4, notify => $5, not_before => $6, expires_at => $7," +
  " priority => $8, on_denial => $9, follows => $10, follow_max => $11, trace => $12) as effect_id";

/** A row with `task_id`. */
export const OPEN_TASK =
  "select effects.open_task($1, parent => $2, subject => $3, actor => $4, deadline => $5, budgets => $6::json) as task_id";

/** A row with `reconciliation_id`. */
export const REQUEST_RECONCILIATION =
  "select effects.request_reconciliation(clock_timestamp() + $1::float8 * interval '1 millisecond', scope => $2," +
  " effect_id => $3, task => $4, operation => $5, since => $6, older_than => $7::float8 * interval '1 millisecond'," +
  " allow_fence => $8, confirm_count => $9) as reconciliation_id";

/** A row with nothing in it. */
export const END_TASK = "select effects.end_task($1)";

/** A row with `result`: what waits, what is in flight, what is unresolved. */
export const PAUSE = "select effects.pause($1, $2, $3, until => $4) as result";

/** A row with `result`, as for a pause. */
export const RESUME = "select effects.resume($1, $2, $3) as result";

/** A row with `result`, as for a pause. */
export const REVOKE_TASK = "select effects.revoke_task($1, $2) as result";

/** A row with `result`, as for a pause. */
export const REVOKE_ACTOR = "select effects.revoke_actor($1, $2) as result";

/** A row with `result`, as for a pause. */
export const WITHDRAW_OPERATION = "select effects.withdraw_operation($1, $2, $3) as result";

/** A row with `result`: the budget with its sums, amounts as digits. */
export const SET_BUDGET = "select effects.set_budget($1, $2, $3, $4) as result";
