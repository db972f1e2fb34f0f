/** How the waiting for an effect's ending ends: the exit code of where it stands. */
import type { State } from "../core/state.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";

/** `deadline` where it has not ended. */
export function endingExit({ state, unresolved }: { readonly state: State; readonly unresolved: boolean }): ExitCode {
  switch (state) {
    case "requested":
    case "prepared":
      return EXIT.deadline;
    case "admitted":
      return unresolved ? EXIT.unresolved : EXIT.deadline;
    case "uncertain": // resolved or not: whoever goes on after 0 counts on an acceptance
      return EXIT.unresolved;
    case "accepted":
      return EXIT.done;
    case "declined":
    case "failed":
    case "no_effect":
      return EXIT.refused;
  }
}
