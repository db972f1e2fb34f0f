/**
 * A request whose input is text, as a shell has it: the bytes reach effects.enqueue as they are, so that a repeated key or
 * a number too large is refused there and not lost in a parser here. Nothing is decided.
 */
import { openClient, wordConnectionError } from "./connection.ts";
import { ENQUEUE } from "./request.ts";
import { runAlone } from "./transaction.ts";

export interface TextRequest {
  readonly operation: string;
  /** JSON, unchanged. */
  readonly input: string;
  readonly task?: string | undefined;
  readonly name?: string | undefined;
  readonly notBefore?: Date | undefined;
  readonly expiresAt?: Date | undefined;
  readonly priority?: number | undefined;
  readonly onDenial?: "wait" | "decline" | undefined;
  /** A registered actor that this login speaks for. */
  readonly actor?: string | undefined;
}

/** Requests an effect in a transaction of its own and returns its id. @throws LedgerError of class PE and others. */
export async function enqueueText(connectionString: string, request: TextRequest): Promise<string> {
  const client = await openClient(connectionString, "pg-effects enqueue");
  try {
    const { rows } = await runAlone<{ effect_id: string }>(client, ENQUEUE, [
      request.operation,
      request.input,
      request.task ?? "default",
      request.name ?? null,
      null, // notify, follows, follow_max and trace have no option on the command line
      request.notBefore ?? null,
      request.expiresAt ?? null,
      request.priority ?? 0,
      request.onDenial ?? "wait",
      null,
      null,
      null,
      request.actor ?? null,
      null, // nor has invocation
    ]);
    return rows[0]?.effect_id ?? "";
  } catch (error) {
    throw wordConnectionError(error);
  } finally {
    await client.end();
  }
}
