/**
 * One test run on one server: how its databases are named, and how they are removed. A server given from outside may be
 * shared with other runs and other people: only names of this form are ever dropped, and of other runs only old ones.
 */
import { randomBytes } from "node:crypto";
import { Client, escapeIdentifier } from "pg";

const PREFIX = "effects_test_";

/** A run that is older than this has ended, however it did. */
const LEFT_OVER_MS = 3_600_000;

/** `effects_test_<seconds since 1970, eight hex digits>_<random>`: every database of the run begins with it. */
export function newRun(): string {
  const seconds = Math.floor(Date.now() / 1_000).toString(16);
  return `${PREFIX}${seconds.padStart(8, "0")}_${randomBytes(3).toString("hex")}`;
}

/** Runs statements on the server's own database, in a connection for this call only. */
export async function onServer<Result>(
  connectionString: string,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Drops what this run made, and what runs left behind that were killed an hour ago or longer. */
export function dropDatabases(connectionString: string, run: string): Promise<void> {
  return onServer(connectionString, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      "select datname from pg_database where datname ~ $1 and pg_has_role(datdba, 'usage')",
      [`^${PREFIX}[0-9a-f]{8}_[0-9a-f]{6}_`],
    );
    for (const { datname } of rows) {
      const begun = Number.parseInt(datname.slice(PREFIX.length, PREFIX.length + 8), 16) * 1_000;
      if (datname.startsWith(`${run}_`) || begun < Date.now() - LEFT_OVER_MS) await dropDatabase(client, datname);
    }
  });
}

/** Drops one database, whoever is connected to it; one that is gone already is no error. */
export async function dropDatabase(client: Client, name: string): Promise<void> {
  const { rowCount } = await client.query("select from pg_database where datname = $1 and datistemplate", [name]);
  if (rowCount === 1) await client.query(`alter database ${escapeIdentifier(name)} is_template false`);
  await client.query(`drop database if exists ${escapeIdentifier(name)} with (force)`);
}
