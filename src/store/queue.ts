/** graphile-worker's logger, turned into one function of ours. Its own success lines say nothing that the ledger does not. */
import { Logger } from "graphile-worker";

export type LogLine = (level: "error" | "warning" | "info", message: string) => void;

/** Passes errors and warnings on, and nothing else. */
export function queueLogger(log: LogLine): Logger {
  return new Logger(() => (level, message) => {
    if (level === "error" || level === "warning") log(level, message);
  });
}

/** Says nothing: for what reports its errors by throwing. */
export const silentLogger = queueLogger(() => {});
