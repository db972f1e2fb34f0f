/** A database of one measurement's own, gone after it. */
import { randomBytes } from "node:crypto";
import pg from "pg";

/** Creates a database, hands it over, and drops it. */
export async function withDatabase<Result>(
  connectionString: string,
  measure: (connectionString: string) => Promise<Result>,
): Promise<Result> {
  const name = `bench_${randomBytes(6).toString("hex")}`;
  const admin = new pg.Client({ connectionString });
  await admin.connect();
  try {
    await admin.query(`create database ${name}`);
    const own = new URL(connectionString);
    own.pathname = `/${name}`;
    return await measure(own.href);
  } finally {
    await admin.query(`drop database if exists ${name} with (force)`);
    await admin.end();
  }
}
