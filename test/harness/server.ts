/**
 * The Postgres that a test run works on: the one it was given, else a container, else the embedded server. It decides
 * fast and says what it chose; a test never depends on which it was.
 */
import { access } from "node:fs/promises";
import { request } from "node:http";
import { Client } from "pg";
import { SERVER_SETTINGS, startEmbedded } from "../../src/postgres/embedded.ts";

const IMAGE = "postgres:18";

/** A container engine answers its ping in milliseconds, or is not there. */
const PING_MS_MAX = 1_000;

/** Pulling the image and starting it. Beyond it the embedded server, which needs two seconds, is the better choice. */
const CONTAINER_MS_MAX = 120_000;

export interface TestServer {
  /** As a user who may create databases. */
  readonly connectionString: string;
  stop(): Promise<void>;
}

/** Starts or finds the server and prints one line: which one it is, and its version. */
export async function startTestServer(): Promise<TestServer> {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return announced("given by TEST_DATABASE_URL", { connectionString: given, stop: async () => {} });
  const container = (await engineAnswers()) ? await startContainer() : null;
  if (container) return announced(`container of ${IMAGE}`, container);
  return announced("embedded", await startEmbedded());
}

async function announced(kind: string, server: TestServer): Promise<TestServer> {
  const client = new Client({ connectionString: server.connectionString, connectionTimeoutMillis: 10_000 });
  try {
    await client.connect();
    const { rows } = await client.query<{ server_version: string }>("show server_version");
    // Not on stdout, which belongs to the reporter of the test run.
    process.stderr.write(`test server: Postgres ${rows[0]?.server_version}, ${kind}\n`);
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  } finally {
    await client.end();
  }
}

async function startContainer(): Promise<TestServer | null> {
  // Loaded only here: it is large, and every test file imports this module.
  const { PostgreSqlContainer } = await import("@testcontainers/postgresql");
  const settings = Object.entries(SERVER_SETTINGS).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const starting = new PostgreSqlContainer(IMAGE).withCommand(["postgres", ...settings]).start();
  const late = Symbol("late");
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<typeof late>((resolve) => {
    timer = setTimeout(resolve, CONTAINER_MS_MAX, late);
  });
  try {
    const started = await Promise.race([starting, timeout]);
    if (started !== late) {
      return { connectionString: started.getConnectionUri(), stop: async () => void (await started.stop()) };
    }
    // Should it still come up, nobody will use it.
    void starting.then((container) => container.stop()).catch(() => {});
    process.stderr.write(`test server: no container of ${IMAGE} within ${CONTAINER_MS_MAX / 1_000} s\n`);
  } catch (error) {
    process.stderr.write(`test server: no container of ${IMAGE}: ${error instanceof Error ? error.message : error}\n`);
  } finally {
    clearTimeout(timer);
  }
  return null;
}

/** Whether a Docker engine answers where DOCKER_HOST or the usual socket points. */
async function engineAnswers(): Promise<boolean> {
  const host = process.env.DOCKER_HOST ?? "unix:///var/run/docker.sock";
  if (!host.startsWith("unix://")) return ping(new URL("/_ping", host.replace(/^tcp:/, "http:")));
  const socketPath = host.slice("unix://".length);
  const there = await access(socketPath).then(
    () => true,
    () => false,
  );
  return there && ping({ socketPath, path: "/_ping" });
}

function ping(target: URL | { socketPath: string; path: string }): Promise<boolean> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(PING_MS_MAX);
    const options =
      target instanceof URL ? { host: target.hostname, port: target.port, path: target.pathname } : target;
    const asked = request({ ...options, signal }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    });
    asked.once("error", () => resolve(false));
    asked.end();
  });
}
