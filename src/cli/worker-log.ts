/** What a worker process says while it runs: one line an event on stderr, as text or with --json as an object. */
import { cleanText } from "../core/text.ts";
import type { LogLine } from "../store/queue.ts";
import { toJson } from "./output.ts";
import { strikeOutPasswords } from "./passwords.ts";

export function workerLog(json: boolean): LogLine {
  return (level, message) => {
    const at = new Date().toISOString();
    const said = strikeOutPasswords(cleanText(message));
    process.stderr.write(json ? `${toJson({ at, level, message: said })}\n` : `${at}  ${level.padEnd(7)}  ${said}\n`);
  };
}
