/**
 * A server for one test file alone: for what is set for a whole server and would reach the neighbours. Always the embedded
 * one, whatever the run was given.
 */
import { startEmbedded } from "../../src/postgres/embedded.ts";
import { HANDED_OVER, type HandedOver } from "./database.ts";
import { newRun } from "./run.ts";

/** Starts it. To be called before the file's first database; it stops after everything else of the file has. */
export async function startOwnServer(): Promise<void> {
  const { connectionString, stop } = await startEmbedded();
  process.env[HANDED_OVER] = JSON.stringify({ connectionString, run: newRun() } satisfies HandedOver);
  // Not an `after` hook: hooks run in the order of registration.
  process.once("beforeExit", stop);
}
