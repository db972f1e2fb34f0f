/** Invocations as a host records them: one execution, and its result. Parameters to a statement, as in request.ts. */
import { END_INVOCATION, START_INVOCATION } from "../store/request.ts";
import type { Statement } from "./request.ts";

/**
 * `failed`: the application said so; `errored`: the execution broke; `rejected`: refused before it started. `succeeded` is
 * refused while an effect of it has no evidence; a cancellation stays one, whatever is said afterwards.
 */
export type InvocationOutcome = "succeeded" | "failed" | "errored" | "cancelled" | "rejected";

export interface Invocation {
  /** What runs it: a service, a command, a server of tools. */
  readonly host: string;
  /** The host's own id of this execution. */
  readonly reference?: string;
}

/** The statement that starts one. */
export function startInvocationStatement({ host, reference }: Invocation): Statement {
  return { text: START_INVOCATION, values: [host, reference ?? null] };
}

/** The statement that records a result. */
export function endInvocationStatement(invocationId: string, outcome: InvocationOutcome): Statement {
  return { text: END_INVOCATION, values: [invocationId, outcome] };
}
