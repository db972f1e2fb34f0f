/**
 * What somebody does who has read nothing but docs/reconciling.md: loses an answer on purpose, watches the effect become
 * unresolved, reconciles it, and reads in SQL who asked, when, within which deadline, what the recipient said and what was
 * settled. Commands, SQL and the recipient are the document's own, run as printed.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, test } from "node:test";
import { createProgram } from "../../src/cli/program.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { cli, ROOT, running } from "./run.ts";

const book = await openTestLedger();
const database = book.connectionString;
const document = await readFile(join(ROOT, "docs", "reconciling.md"), "utf8");
const blocks = (language: string) =>
  [...document.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(([, text]) => text ?? "");

/** The arguments of each `pg-effects …` of a block, as a shell reads them. */
function commandsOf(block: string): readonly (readonly string[])[] {
  const lines = block.split("\n").filter((line) => line.startsWith("pg-effects "));
  const words = (line: string) =>
    [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
  return lines.map((line) => words(line).slice(1));
}

const recipient = { port: "", said: "" };
before(async () => {
  const worker = await running(["worker", "--tasks", "tasks"], "http_request", { database });
  book.atEnd(async () => {
    worker.child.kill("SIGTERM");
    assert.equal((await worker.ended).exit, 0);
  });
  const child = spawn(process.execPath, [join(ROOT, "examples", "forgetful-recipient.ts"), "0"]);
  book.atEnd(() => child.kill("SIGKILL"));
  child.stdout.on("data", (chunk) => {
    recipient.said += String(chunk);
  });
  recipient.port = await waitFor("the recipient listens", () => /127\.0\.0\.1:(\d+)/.exec(recipient.said)?.[1]);
});

test("a lost answer, from the doubt to the record of how it ended", async () => {
  const [typed = ""] = blocks("sh").filter((block) => block.includes("enqueue http_request"));
  const [enqueue, unresolved, reconcile, show] = commandsOf(typed.replaceAll("8090", recipient.port));
  assert.ok(enqueue && unresolved && reconcile && show);
  const asked = await cli(enqueue, { database });
  assert.equal(asked.exit, 3);
  assert.match(asked.stdout, /\nadmitted, unresolved since /);
  const doubt = await cli(unresolved, { database });
  assert.equal(doubt.exit, 3);
  assert.match(doubt.stdout, /http_request +default +try\/1 .* 1 notes .* reconcile\n/);
  const reconciled = await cli(reconcile, { database });
  assert.equal(reconciled.exit, 0);
  assert.match(reconciled.stdout, /\nhttp_request +accepted +accepted +1\n$/);

  const [who, said, settled] = (blocks("sql")[0] ?? "").split(";");
  assert.ok(who && said && settled);
  const login = new URL(database).username;
  const [request] = await book.sql<{ requested_at: Date; deadline: Date }>(who);
  assert.partialDeepStrictEqual(request, { requested_by: login, scope: "effect", allows: "lookup", ended: "finished" });
  assert.equal(Math.round(((request?.deadline.getTime() ?? 0) - (request?.requested_at.getTime() ?? 0)) / 1_000), 60);
  const [inspection] = await book.sql<object>(said);
  const proof = { status: 200, reference: "note_1" };
  assert.partialDeepStrictEqual(inspection, {
    kind: "lookup",
    report: "accepted",
    recorded: "accepted",
    evidence: proof,
  });
  assert.partialDeepStrictEqual(inspection, { requested_by: login });
  const [end] = await book.sql<object>(settled);
  assert.partialDeepStrictEqual(end, {
    outcome: "accepted",
    outcome_via: "reconcile",
    reference: "note_1",
    resolution: null,
  });
  assert.partialDeepStrictEqual(end, { unit: "notes", reserved: "1", settled: "1", standing: "settled" });

  const shown = await cli(show, { database });
  assert.match(
    shown.stdout,
    new RegExp(`reconciliation requested +${login} +reconciliation \\w{8}, of this effect, until `),
  );
  assert.match(shown.stdout, /lookup answered accepted .* evidence \w{12}: \{"reference":"note_1","status":200\}\n/);
  assert.deepEqual(recipient.said.match(/^(booked|asked)/gm), ["booked", "asked"]); // and never a second time
});

test("every command of the document is one, complete but for the ledger", async () => {
  const commands = blocks("sh").flatMap(commandsOf);
  assert.ok(commands.length > 10);
  for (const args of commands) {
    const refused = await createProgram()
      .parseAsync([...args, "--database", "nowhere"], { from: "user" })
      .then(
        () => null,
        (error: { code?: unknown }) => error.code,
      );
    assert.ok(
      ["connection_string_invalid", "input_unreadable"].includes(String(refused)),
      `${args.join(" ")}: ${refused}`,
    );
  }
});
