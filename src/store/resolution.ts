/** The texts of what people and registered sources say about an effect. What it settles is the functions' decision. */

/** A row with `answer`: resolved, after_risk (resolved by evidence after the risk was accepted), or same. */
export const RESOLVE = "select effects.resolve($1, $2, $3::json, $4, reference => $5, cost => $6::json) as answer";

/** A row with `answer`: resolved or same. */
export const ACCEPT_RISK = "select effects.accept_risk($1, $2) as answer";

/** A row with `answer`: resolved, after_risk, agrees, contradicts, kept, charged or same. */
export const SUBMIT_EVIDENCE = "select effects.submit_evidence($1, $2, $3, $4, $5, $6::json) as answer";

/** A row with nothing in it. */
export const ADD_SOURCE = "select effects.add_source($1, $2, authoritative => $3, submitted_by => $4)";

/** A row with nothing in it. */
export const REVOKE_SOURCE = "select effects.revoke_source($1, $2)";
