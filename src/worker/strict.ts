/** A strict ledger has no unrestricted way beside it: a worker of one runs operations and nothing else (protocol, section 9). */
import type pg from "pg";
import { LedgerError } from "../core/error.ts";
import { isStrict } from "../store/workers.ts";
import type { LoadedTasks } from "./operations.ts";

/** @throws LedgerError `strict_ledger` where the ledger is strict and a task file holds no operation. */
export async function refusePlainTasks(pool: pg.Pool, { plain }: Pick<LoadedTasks, "plain">): Promise<void> {
  const [file, ...others] = plain.keys();
  if (file === undefined || !(await isStrict(pool))) return;
  const more = others.length > 0 ? `, nor ${others.join(", ")}` : "";
  throw new LedgerError("strict_ledger", `the ledger is strict, and the task file ${file} is no operation${more}`, {
    hint: "run what is no operation by a worker of its own queue, or export by default what defineOperation returns",
  });
}
