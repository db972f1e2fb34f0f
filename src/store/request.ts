/** The texts of the public statements. Values are filled in by src/request, and run on whatever connection is the caller's. */

/** A row with `effect_id`. */
export const ENQUEUE =
  "select effects.enqueue($1, $2::json, task => $3, name => $4, notify => $5, not_before => $6, expires_at => $7," +
  " priority => $8, on_denial => $9, follows => $10, follow_max => $11, trace => $12, actor => $13, invocation => $14) as effect_id";

/** A row with `invocation_id`. */
export const START_INVOCATION = "select effects.start_invocation($1, $2) as invocation_id";

/** A row with `outcome`: what is recorded. */
export const END_INVOCATION = "select effects.end_invocation($1, $2) as outcome";

/** A row for each request, in their order, with `effect_id` and `replayed`. */
export const ENQUEUE_MANY = "select effect_id, replayed from effects.enqueue_many($1, $2::json) order by ordinal";

/** A row with `result`: `declined`, `cancel_requested` or `ended`. */
export const CANCEL = "select effects.cancel($1) as result";

/** A row with `effect_id`: of the new effect, or of the one that tries it again already. */
export const FOLLOW = "select effects.follow($1, $2) as effect_id";

/** A row with `task_id`. */
export const OPEN_TASK =
  "select effects.open_task($1, parent => $2, subject => $3, actor => $4, deadline => $5, budgets => $6::json) as task_id";

/** A row with `task_id`. */
export const OPEN_ROOT_TASK =
  "select effects.open_root_task($1, $2, subject => $3, actor => $4, deadline => $5, budgets => $6::json) as task_id";

/** A row with nothing in it. */
export const ADD_ACTOR = "select effects.add_actor($1, $2, spoken_by => $3)";

/** A row with `result`, as for a pause. */
export const REVOKE_SPEAKER = "select effects.revoke_speaker($1, $2, $3) as result";

/** A row with nothing in it. */
export const LET_OBSERVE = "select effects.let_observe($1, $2, $3)";

/** A row with nothing in it. */
export const REVOKE_OBSERVER = "select effects.revoke_observer($1, $2, $3)";

/** A row with `reconciliation_id`. */
export const REQUEST_RECONCILIATION =
  "select effects.request_reconciliation(clock_timestamp() + $1::float8 * interval '1 millisecond', scope => $2," +
  " effect_id => $3, task => $4, operation => $5, since => $6, older_than => $7::float8 * interval '1 millisecond'," +
  " allow_fence => $8, allow_resubmit => $9, include_uncertain => $10, confirm_count => $11) as reconciliation_id";

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
