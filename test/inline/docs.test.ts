/** docs/inline.md: its TypeScript is sound and does what it says, run as printed, and its SQL answers. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { before, test } from "node:test";
import { promisify } from "node:util";
import { startCardApi } from "../../src/demo/recipients/card-api.ts";
import { openTestLedger } from "../harness/ledger.ts";

const ROOT = join(import.meta.dirname, "../..");
const subject = await openTestLedger();
const cards = await startCardApi({ token: "demo" });
subject.atEnd(() => cards.stop());

const text = await readFile(join(ROOT, "docs/inline.md"), "utf8");
const snippets = (language: string) =>
  [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, of, body = ""]) => (of === language ? [body] : []));

let folder = "";
const files: string[] = [];
before(async () => {
  // Inside the checkout, so that the snippets find the packages that they import.
  await mkdir(join(ROOT, ".pg-effects"), { recursive: true });
  folder = await mkdtemp(join(ROOT, ".pg-effects", "inline-"));
  subject.atEnd(() => rm(folder, { recursive: true }));
  await subject.sql("update effects_ledger.identity set name = 'shop', written_by = pg_current_xact_id()");
  for (const body of snippets("ts")) {
    const file = join(folder, /^\/\/ (\S+\.ts)\n/.exec(body)?.[1] ?? assert.fail("a snippet names no file"));
    const entry = relative(folder, join(ROOT, "src/index.ts"));
    await writeFile(file, body.replaceAll('from "pg-effects"', `from "${entry}"`));
    files.push(file);
  }
});

async function run(file: string): Promise<string> {
  const env = { ...process.env, DATABASE_URL: subject.connectionString, CARDS_URL: cards.url, CARDS_KEY: "demo" };
  return (await promisify(execFile)(process.execPath, [join(folder, file)], { env })).stdout;
}

test("its TypeScript is sound", async () => {
  const config = { extends: join(ROOT, "tsconfig.json"), files, include: [] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  await promisify(execFile)(process.execPath, [tsc, "-p", folder], { cwd: ROOT });
});

test("its charge is booked, and run again it says the same and charges nobody", async () => {
  const first = await run("settle.ts");
  assert.match(first, /^booked as ch_\w+ via run\n$/);
  assert.equal(await run("settle.ts"), first);
  assert.deepEqual([cards.requests, cards.charges, cards.lookups], [1, 1, 0]);
});

test("its invocation succeeds, and its SQL answers", async () => {
  assert.equal(await run("invocation.ts"), "succeeded\n");
  const statements = snippets("sql").flatMap((each) => each.split(";\n").filter((one) => one.trim() !== ""));
  assert.ok(statements.length >= 3);
  for (const statement of statements) assert.ok((await subject.sql(statement)).length > 0, statement);
});
