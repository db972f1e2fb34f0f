/** docs/errors.md and the code: every code that an application or a person can meet is there, and no other. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { filesIn } from "./tree.ts";

/** The demo's and its recipients' own: they end a demonstration, and nobody matches on them. */
const NOT_MET = /^src\/demo\//;

const [docs] = filesIn(/^docs\/errors\.md$/);
const [bySql = "", byUs = "", whyNot = ""] = docs?.text.split(/^## .*$/m).slice(1) ?? [];

/** The codes in the first cells of a table. */
function listed(table: string): readonly string[] {
  const cells = [...table.matchAll(/^\| ([^|]+) \|/gm)].map(([, cell = ""]) => cell).slice(1); // below the header
  return cells.flatMap((cell) => cell.split(", ")).filter((code) => !/^[- ]*$/.test(code));
}

/** What the pattern's first group finds, each once. */
function foundIn(path: RegExp, pattern: RegExp): readonly string[] {
  const sources = filesIn(path).filter((file) => !NOT_MET.test(file.path));
  return [...new Set(sources.flatMap(({ text }) => [...text.matchAll(pattern)].map(([, code = ""]) => code)))].sort();
}

function missing(codes: readonly string[], ...tables: readonly string[]): readonly string[] {
  const known = new Set(tables.flatMap(listed));
  return codes.filter((code) => !known.has(code));
}

test("every code that a migration raises is among those of the database", () => {
  const raised = foundIn(/^migrations\//, /refuse\(\s*'(\w{5})'/g);
  assert.ok(raised.includes("PE101"));
  assert.deepEqual(missing(raised, bySql), []);
});

test("every code that our own code throws is listed, an adapter's included", () => {
  const thrown = foundIn(/^(src|tasks)\/.*\.ts$/, /(?:new LedgerError|super)\(\s*"(\w+)"/g);
  assert.ok(thrown.includes("usage_invalid") && thrown.includes("effect_ambiguous"));
  const worded = foundIn(/^src\/store\/connection-words\.ts$/, /\[\s*"([a-z]\w+)",/g);
  assert.ok(worded.includes("server_unreachable"));
  assert.deepEqual(missing([...thrown, ...worded], bySql, byUs, whyNot), []);
});

test("every code with an exit code of its own is listed", () => {
  const exits = foundIn(/^src\/cli\/exit-code\.ts$/, /^ {2}"?(\w+)"?: EXIT\./gm);
  assert.ok(exits.includes("tasks_missing"));
  assert.deepEqual(missing(exits, bySql, byUs, whyNot), []);
});

test("every reason to wait or to decline is listed", () => {
  const denials = foundIn(/^migrations\/0010_observation\.sql$/, /^ {2}\(\d+, '(\w+)', (?:true|false),/gm);
  assert.ok(denials.includes("secret_bound"));
  assert.deepEqual(missing(denials, whyNot), []);
});

test("nothing is listed that no code has", () => {
  const texts = filesIn(/^(src|tasks|migrations)\//).map(({ text }) => text);
  const codes = [bySql, byUs, whyNot].flatMap(listed);
  assert.ok(codes.length > 60);
  const gone = codes.filter((code) => !texts.some((text) => new RegExp(`\\b${code}\\b`).test(text)));
  assert.deepEqual(gone, []);
});
