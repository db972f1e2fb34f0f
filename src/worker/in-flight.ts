/**
 * Which effects this process has admitted and has not reported on. Should it end now, nobody would know whether they
 * happened; whoever ends a process says so.
 */
import type { Steps } from "./job.ts";

/** The same steps; `inFlight` holds the ids of what is between its admission and its first report. */
export function watchInFlight(steps: Steps, inFlight: Set<string>): Steps {
  return {
    ...steps,
    async admit(candidate) {
      const admission = await steps.admit(candidate);
      if (admission.admission === "admitted") inFlight.add(admission.admitted.effect.id);
      return admission;
    },
    async settle(report) {
      const fate = await steps.settle(report);
      inFlight.delete(report.effectId);
      return fate;
    },
  };
}
