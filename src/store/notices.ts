/** The inboxes: what is taken out of them, and the channel on which the database says that something was put in. */
import type pg from "pg";
import type { State } from "../core/state.ts";

/** The channel of effects_ledger.give_notice; what is said on it is an inbox's name. */
export const NOTICES_CHANNEL = "effects_notices";

/** A row of effects.take_notices. */
export interface NoticeRow {
  readonly effect_id: string;
  readonly seq: number;
  readonly name: string | null;
  readonly operation: string;
  readonly state: State;
  readonly unresolved: boolean;
  readonly waiting_for: string | null;
  readonly resolution: "evidence" | "reached" | "risk_accepted" | null;
  readonly reference: string | null;
  readonly at: Date;
}

/** Beyond this a network is dead that nobody told us about, in milliseconds. */
const ANSWER_MS_MAX = 30_000;

/** Takes notices, in the transaction that the client has open. @throws 22023, 42501. */
export async function takeNotices(client: pg.ClientBase, inbox: string, max: number): Promise<readonly NoticeRow[]> {
  const statement = {
    text: "select * from effects.take_notices($1, $2)",
    values: [inbox, max],
    query_timeout: ANSWER_MS_MAX,
  };
  const { rows } = await client.query<NoticeRow>(statement);
  return rows;
}

/** Has the client hear what the database says about inboxes. Behind a pooler in transaction mode it hears nothing. */
export async function listenForNotices(client: pg.ClientBase): Promise<void> {
  await client.query(`listen ${NOTICES_CHANNEL}`);
}
