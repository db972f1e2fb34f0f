/**
 * Brings the ledger's authority to what a reviewed file says, in one transaction, by the same functions as the single
 * commands; each takes its own locks and records who and why. Before it commits the file is compared again: what stands
 * then is what was reviewed, or nothing is changed.
 */
import type pg from "pg";
import { LedgerError } from "../core/error.ts";
import { planAuthority } from "../core/plan-authority.ts";
import type { PlannedChange, Problem, WantedAuthority } from "../core/wanted-authority.ts";
import { type Mentioned, readAuthority } from "../store/authority-state.ts";
import { openPool, wordConnectionError } from "../store/connection.ts";
import type { ConcernedRow } from "../store/control.ts";
import { isConflict, lookAndRollBack, transact } from "../store/transaction.ts";
import { authorityStatement } from "./authority.ts";

export interface ApplyOptions {
  readonly connectionString: string;
  readonly wanted: WantedAuthority;
  /** 1 to 500 characters, recorded with each change. */
  readonly reason: string;
  /** Makes every change and rolls it back: what is planned is what would be done. */
  readonly planOnly: boolean;
}

/** A change that was made, with what it came too late for. */
export interface AppliedChange extends PlannedChange {
  readonly met: ConcernedRow | null;
}

/** Problems that are named in one message. */
const PROBLEMS_MAX = 10;

/**
 * Applies a file; an empty list where everything stands already.
 * @throws LedgerError `authority_refused` for entries that cannot be brought about, `authority_changed` where somebody else
 *   changed the same meanwhile, or a function's own code, with the path of the entry.
 */
export async function applyAuthority(options: ApplyOptions): Promise<readonly AppliedChange[]> {
  const pool = openPool({ connectionString: options.connectionString, applicationName: "pg-effects apply", max: 1 });
  try {
    if (options.planOnly) {
      const client = await pool.connect();
      try {
        return await lookAndRollBack(client, (session) => carryOut(session, options));
      } finally {
        client.release();
      }
    }
    return await transact(pool, { isolation: "read committed" }, async (client) => {
      const applied = await carryOut(client, options);
      return { last: Promise.resolve(), result: () => applied };
    });
  } catch (error) {
    throw wordConnectionError(error);
  } finally {
    await pool.end();
  }
}

async function carryOut(client: pg.ClientBase, { wanted, reason }: ApplyOptions): Promise<readonly AppliedChange[]> {
  const mentioned = mentionedIn(wanted);
  const { changes, problems } = planAuthority(wanted, await readAuthority(client, mentioned));
  if (problems.length > 0) throw refused(problems);
  const applied: AppliedChange[] = [];
  for (const planned of changes) applied.push({ ...planned, met: await make(client, planned, reason) });
  if (changes.length > 0) await proveApplied(client, wanted, mentioned);
  return applied;
}

/** Makes one change. Its failure says which entry wanted it. */
async function make(client: pg.ClientBase, planned: PlannedChange, reason: string): Promise<ConcernedRow | null> {
  const { text, values } = authorityStatement(planned.change, reason);
  try {
    const { rows } = await client.query<{ result?: Partial<ConcernedRow> }>(text, [...values]);
    const result = rows[0]?.result;
    return result?.in_flight ? (result as ConcernedRow) : null;
  } catch (error) {
    if (isConflict(error)) throw error; // the whole is tried again
    const worded = wordConnectionError(error);
    if (!(worded instanceof LedgerError)) throw error;
    throw new LedgerError(worded.code, `${planned.at}: ${worded.message}`, { hint: worded.hint ?? "", cause: error });
  }
}

/** What others committed beside us is seen here, and what we wrote. */
async function proveApplied(client: pg.ClientBase, wanted: WantedAuthority, mentioned: Mentioned): Promise<void> {
  const left = planAuthority(wanted, await readAuthority(client, mentioned));
  const [first] = [...left.problems.map(({ at }) => at), ...left.changes.map(({ at }) => at)];
  if (first === undefined) return;
  throw new LedgerError("authority_changed", `${first} is not as the file says after it was applied`, {
    hint: "nothing was changed: somebody else changes the same, or two entries disagree; look at --plan, and apply again",
  });
}

function mentionedIn({ actors, tasks, operations, approvers, policies }: WantedAuthority): Mentioned {
  const rules = policies.flatMap((each) => each.rules ?? []);
  return {
    actors: actors.map(({ actor }) => actor),
    tasks: [...tasks.map(({ name }) => name), ...rules.map(({ task }) => task)],
    operations: [...operations, ...rules].map(({ operation }) => operation),
    approvers: approvers.map(({ approver }) => approver),
    keys: approvers.flatMap(({ public_key }) => public_key ?? []),
    policies: policies.map(({ name }) => name),
  };
}

function refused(problems: readonly Problem[]): LedgerError {
  const words = problems.slice(0, PROBLEMS_MAX).map(({ at, says }) => `${at}: ${says}`);
  const more = problems.length > PROBLEMS_MAX ? [`and ${problems.length - PROBLEMS_MAX} more`] : [];
  return new LedgerError("authority_refused", [...words, ...more].join("; "), {
    hint: "nothing was changed: mend the file, or what it meets",
  });
}
