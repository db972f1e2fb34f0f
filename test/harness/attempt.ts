/** What the database says to a statement that is undone in any case: tests try what nobody may do, as a superuser. */
import type pg from "pg";

/** How it was refused; null where it was not. */
export interface Refusal {
  readonly code: string;
  readonly constraint: string | undefined;
  readonly message: string;
}

/** Runs a statement in a transaction of its own and rolls it back. */
export async function attempt(
  client: pg.ClientBase,
  text: string,
  values: readonly unknown[] = [],
): Promise<Refusal | null> {
  await client.query("begin");
  try {
    await client.query(text, [...values]);
    return null;
  } catch (error) {
    const { code, constraint, message } = error as pg.DatabaseError;
    return { code: code ?? "", constraint, message };
  } finally {
    await client.query("rollback");
  }
}
