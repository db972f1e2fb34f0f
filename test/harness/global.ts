/**
 * `node --test --test-global-setup`: one server for all test files. The files run in processes of their own and find it
 * in their environment (HANDED_OVER).
 */
import { HANDED_OVER, type HandedOver } from "./database.ts";
import { dropDatabases, newRun } from "./run.ts";
import { startTestServer, type TestServer } from "./server.ts";

let server: TestServer | undefined;
const run = newRun();

export async function globalSetup(): Promise<void> {
  server = await startTestServer();
  const { connectionString } = server;
  await dropDatabases(connectionString, run);
  process.env[HANDED_OVER] = JSON.stringify({ connectionString, run } satisfies HandedOver);
}

export async function globalTeardown(): Promise<void> {
  if (!server) return;
  try {
    await dropDatabases(server.connectionString, run);
  } finally {
    await server.stop();
  }
}
