/**
 * The README's snippets are run as printed: the operation and the service, what an operator and an owner type, what an auditor asks,
 * the queries that would show a guarantee broken, and the SQL of docs/sql.md.
 */
import assert from "node:assert/strict";
import { execFile, spawn, spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import pg from "pg";
import { startCardApi } from "../src/demo/recipients/card-api.ts";
import { createTestDatabase } from "./harness/database.ts";
import { waitFor } from "./harness/wait.ts";

const ROOT = join(import.meta.dirname, "..");
const MAIN = join(ROOT, "src/cli/main.ts");

/** The commands that are one shell script. */
const OWNERS = /approval approve/;
const OPENSSL = spawnSync("openssl", ["version"]).status === 0;

interface Snippet {
  readonly language: string;
  readonly text: string;
}

describe("the README", () => {
  let folder: string;
  let environment: NodeJS.ProcessEnv;
  let client: pg.Client;
  const undo: (() => unknown)[] = [];

  before(async () => {
    const readme = await snippets("README.md");
    // Inside the checkout, so that the snippets find the packages that they import.
    await mkdir(join(ROOT, ".pg-effects"), { recursive: true });
    folder = await mkdtemp(join(ROOT, ".pg-effects", "readme-"));
    undo.push(() => rm(folder, { recursive: true }));
    for (const { text } of readme.filter(({ language }) => language === "ts")) await writeSource(folder, text);

    const { connectionString, drop } = await createTestDatabase(null);
    undo.push(drop);
    const cards = await startCardApi({ token: "demo" });
    undo.push(() => cards.stop());
    environment = {
      ...process.env,
      DATABASE_URL: connectionString,
      CARDS_URL: cards.url,
      CARDS_KEY: "demo",
      PG_EFFECTS_RELEASE: "readme",
    };
    client = new pg.Client({ connectionString });
    await client.connect();
    undo.push(() => client.end());
    await command(["migrate", "--ledger", "shop"]);
    undo.push(await startWorker());
  });
  after(async () => {
    for (const step of undo.reverse()) await step();
  });

  it("has two commands that exist", async () => {
    const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { scripts: object };
    const [first] = (await snippets("README.md")).filter(({ language }) => language === "sh");
    assert.equal(first?.text, "npm ci\nnpm run demo\n");
    assert.ok("demo" in scripts && "dev" in scripts && "check" in scripts && "test" in scripts);
  });

  it("has TypeScript that is sound", async () => {
    const files = ["tasks/charge_card.ts", "service.ts"].map((file) => join(folder, file));
    const config = { extends: join(ROOT, "tsconfig.json"), files, include: [] };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    await promisify(execFile)(process.execPath, [tsc, "-p", folder], { cwd: ROOT });
  });

  it("has a service whose charge is booked", async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [join(folder, "service.ts")], { env: environment });
    assert.match(stdout, /^booked as ch_/);
  });

  it("has a request in SQL that is carried out", async () => {
    const [request] = (await snippets("README.md")).filter(({ text }) => text.includes("effects.enqueue("));
    await client.query(request?.text ?? "");
    await waitFor("the effect of the README's SQL is accepted", async () => {
      const { rows } = await client.query("select state from audit.effects where name = 'order/8/charge'");
      return rows[0]?.state === "accepted";
    });
  });

  it("has operator's commands that answer", async () => {
    const typed = (await snippets("README.md"))
      .filter(({ language, text }) => language === "sh" && !OWNERS.test(text))
      .flatMap(({ text }) => text.trim().split("\n"))
      .filter((line) => line.startsWith("pg-effects "));
    assert.ok(typed.length >= 5);
    for (const line of typed) await command(line.split(" ").slice(1));
  });

  it("has an owner's way that a shell runs as printed, and each of it is found in SQL", {
    skip: OPENSSL ? false : "there is no openssl here",
  }, async () => {
    const [way] = (await snippets("README.md")).filter(({ language, text }) => language === "sh" && OWNERS.test(text));
    const bin = join(folder, "bin");
    await mkdir(bin);
    await writeFile(join(bin, "pg-effects"), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, { mode: 0o755 });
    const { stdout, stderr } = await promisify(execFile)("sh", ["-e", "-c", way?.text ?? "exit 1"], {
      cwd: folder,
      env: { ...environment, PATH: `${bin}:${process.env.PATH}` },
    });
    assert.match(stdout, /\n[0-9a-f]{8} +order\/12\/charge +charge_card 1 /);
    assert.match(stderr, /signature_wrong {2}the signature is not ana's over these bytes/);
    assert.match(stdout, /\nexit 4\napproved order\/12\/charge as ana: approval /);
    assert.match(stdout, /\nrevoked policy exceptions\n.*\ndeclined, denied: policy_missing\n.*exit 4\n$/s);
    await waitFor("the approved charge is accepted", async () => {
      const { rows } = await client.query("select state from audit.effects where name = 'order/12/charge'");
      return rows[0]?.state === "accepted";
    });
    const [sql] = (await snippets("README.md")).filter(({ text }) => text.includes("join audit.approvals"));
    const answers: Record<string, unknown>[][] = [];
    for (const text of (sql?.text ?? "").split(";\n").filter((each) => each.trim() !== "")) {
      answers.push((await client.query<Record<string, unknown>>(text)).rows);
    }
    const [approved, denied, changes] = answers;
    assert.deepEqual(approved, [
      { name: "order/12/charge", state: "accepted", policy: "exceptions", approver: "ana", counted: true },
    ]);
    assert.ok(denied?.some(({ state, code }) => state === "declined" && code === "policy_missing"));
    assert.ok(changes?.some(({ change, reason }) => change === "policy revoked" && reason === "INC-91"));
  });

  it("has auditor's questions that run, and no violation", async () => {
    const [audit] = (await snippets("README.md")).filter(({ text }) => text.includes("audit.violations;"));
    for (const question of (audit?.text ?? "").split(";").filter((text) => text.trim() !== "")) {
      const { rows } = await client.query(question);
      if (question.includes("audit.effects")) assert.ok(rows.length > 0);
      if (question.includes("violations")) assert.deepEqual(rows, []);
    }
  });

  it("names for each guarantee a query that finds nothing broken", async () => {
    const readme = await readFile(join(ROOT, "README.md"), "utf8");
    const queries = [...readme.matchAll(/^\|.*\| `(select [^`]+)` \|$/gm)].map(([, query]) => query as string);
    assert.ok(queries.length >= 5);
    for (const query of queries) assert.deepEqual((await client.query(query)).rows, []);
    const named = queries.flatMap((query) =>
      [...query.matchAll(/violation like '([^'%]+)%'/g)].map(([, start]) => start),
    );
    const { rows } = await client.query<{ text: string }>(
      "select pg_get_viewdef('audit.violations'::regclass) as text",
    );
    for (const start of named)
      assert.ok(rows[0]?.text.replaceAll("''", "'").includes(`'${start}`), `${start} is no violation`);
  });

  it("leads to docs/sql.md, whose SQL runs as printed", async () => {
    for (const { text } of (await snippets("docs/sql.md")).filter(({ language }) => language === "sql")) {
      await client.query(text);
    }
  });

  async function command(words: readonly string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...words], { env: environment, cwd: folder });
    return stdout;
  }

  /** As the README says, by its end: `worker --tasks tasks`. Returns what stops it. */
  async function startWorker(): Promise<() => Promise<void>> {
    const child = spawn(process.execPath, [MAIN, "worker", "--tasks", "tasks"], {
      cwd: folder,
      env: environment,
      stdio: ["ignore", "ignore", "inherit"],
    });
    const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
    await waitFor("the operation is registered", async () => {
      assert.equal(child.exitCode, null, "the worker ended");
      return (await client.query("select from effects.operations")).rowCount === 1;
    });
    return async () => {
      child.kill("SIGTERM");
      assert.equal(await exited, 0);
    };
  }
});

/** Writes a snippet to the file that its first line names, with the package's name resolved to this checkout. */
async function writeSource(folder: string, text: string): Promise<void> {
  const file = join(folder, /^\/\/ (\S+\.ts)\n/.exec(text)?.[1] ?? assert.fail("a snippet names no file"));
  await mkdir(dirname(file), { recursive: true });
  const entry = relative(dirname(file), join(ROOT, "src/index.ts"));
  await writeFile(file, text.replaceAll('from "pg-effects"', `from "${entry}"`));
}

async function snippets(document: string): Promise<readonly Snippet[]> {
  const text = await readFile(join(ROOT, document), "utf8");
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = "", body = ""]) => ({
    language,
    text: body,
  }));
}
