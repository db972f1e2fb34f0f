/** Operations registered as a worker's start registers them, for tests in which no worker runs (yet). */
import pg from "pg";
import type { AnyOperation } from "../../src/core/operation.ts";
import { registerOperations } from "../../src/store/workers.ts";
import { loadTasks, registration, runOperations } from "../../src/worker/operations.ts";

/** Operations of this process, or a folder of them. */
export async function register(connectionString: string, operations: readonly AnyOperation[] | string): Promise<void> {
  const running = typeof operations === "string" ? (await loadTasks(operations)).operations : runOperations(operations);
  const pool = new pg.Pool({ connectionString, max: 1 });
  try {
    await registerOperations(
      pool,
      running.map((each) => registration(each, "test")),
    );
  } finally {
    await pool.end();
  }
}
