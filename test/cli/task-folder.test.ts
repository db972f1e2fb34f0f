/** A folder of operations that cannot be loaded: which file and line it is, what to do, and none of the environment's secrets. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { LedgerError } from "../../src/core/error.ts";
import { loadTasks } from "../../src/worker/operations.ts";
import { cli, ROOT } from "./run.ts";

const scratch = await mkdtemp(join(tmpdir(), "pg-effects-folder-"));
after(() => rm(scratch, { recursive: true }));

const INDEX = pathToFileURL(join(ROOT, "src", "index.ts")).href;
let folders = 0;

async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  folders += 1;
  const folder = join(scratch, `tasks-${folders}`);
  for (const [name, source] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), source);
  }
  return folder;
}

async function refusal(folder: string, source: Readonly<Record<string, string>> = {}): Promise<LedgerError> {
  try {
    await loadTasks(folder, { log: () => {}, secrets: source });
  } catch (error) {
    assert.ok(error instanceof LedgerError, String(error));
    return error;
  }
  assert.fail(`${folder} was loaded`);
}

const PLAIN = "export default () => {};\n";

describe("a file that cannot be loaded is named with its line", () => {
  const BROKEN: Readonly<Record<string, readonly [files: Readonly<Record<string, string>>, place: RegExp]>> = {
    "TypeScript with a syntax error": [{ "a.ts": "const a = 1;\nexport default (;\n" }, /\/a\.ts:2 .*SyntaxError/],
    "TypeScript that cannot be stripped": [{ "a.ts": "\n\nenum X { A }\n" }, /\/a\.ts:3 .*enum is not supported/],
    "JavaScript with a syntax error": [{ "a.mjs": "const a = 1;\nexport default (;\n" }, /\/a\.mjs:2 .*SyntaxError/],
    "an import with a syntax error": [
      { "a.ts": `import "./lib/b.mjs";\n${PLAIN}`, "lib/b.mjs": "const b = 1;\n\nexport const b = (;\n" },
      /\/lib\/b\.mjs:3 .*SyntaxError/,
    ],
    "an import of what is not exported": [
      { "a.ts": `import { b } from "./lib/b.ts";\n${PLAIN}`, "lib/b.ts": "export const c = 1;\n" },
      /\/a\.ts:1 .*does not provide an export named 'b'/,
    ],
    "a throw": [{ "a.ts": '\nthrow new Error("no key");\n' }, /\/a\.ts:2 cannot be loaded: Error: no key/],
    "a throw in an import": [
      { "a.ts": `import "./lib/b.ts";\n${PLAIN}`, "lib/b.ts": '\n\nthrow new TypeError("no");\n' },
      /\/lib\/b\.ts:3 cannot be loaded: TypeError: no/,
    ],
    "a throw of undefined": [{ "a.ts": "throw undefined;\n" }, /\/a\.ts cannot be loaded: thrown: undefined/],
    "a throw of null": [{ "a.ts": "throw null;\n" }, /\/a\.ts cannot be loaded: thrown: null/],
    "an Error that cannot be read": [
      { "a.ts": 'throw new Proxy(new Error(), { get() { throw new Error("not readable"); } });\n' },
      /\/a\.ts:1 cannot be loaded: Error: not readable/,
    ],
    "no default export": [{ "a.ts": "export const b = 1;\n" }, /\/a\.ts'.*expected function/],
  };
  for (const [what, [files, place]] of Object.entries(BROKEN)) {
    test(what, async () => {
      const { code, message } = await refusal(await folderOf(files));
      assert.equal(code, "task_file_broken");
      assert.match(message, place);
    });
  }
});

describe("what is missing has the hint of what to do about it", () => {
  const hints: Readonly<Record<string, readonly [source: string, hint: RegExp]>> = {
    "a package": [
      'import "pg-effects";\n',
      /^install that package in the project of this file: `npm install pg-effects`/,
    ],
    "a file of the project": ['import "./gone.ts";\n', /^correct the import/],
    "what is wrong with the file itself": ["throw 1;\n", /^mend that file/],
  };
  for (const [what, [source, hint]] of Object.entries(hints)) {
    test(what, async () => assert.match((await refusal(await folderOf({ "a.ts": source + PLAIN }))).hint ?? "", hint));
  }

  test("a package that was not built", async () => {
    const folder = await folderOf({
      "a.ts": `import "unbuilt";\n${PLAIN}`,
      "node_modules/unbuilt/package.json": '{"name": "unbuilt", "exports": "./dist/index.js"}',
    });
    assert.match((await refusal(folder)).hint ?? "", /build it/);
  });
});

describe("no secret of the environment is told", () => {
  const KEY = "sk_live_import_1";
  const throwing = `throw new Error("bad ${KEY}, " + Buffer.from("user:${KEY}").toString("base64"));\n`;
  const SOURCES: Readonly<Record<string, readonly [name: string, files: Readonly<Record<string, string>>]>> = {
    "that the file names": ["CARDS", { "a.ts": `// reads process.env.CARDS\n${throwing}` }],
    "that a file which it imports names": [
      "CARDS",
      { "a.ts": `import "./lib/b.ts";\n${throwing}`, "lib/b.ts": "export const name = 'CARDS';\n" },
    ],
    "that another operation declares": [
      "CARDS",
      {
        "a.ts": throwing,
        "b.ts": `import { defineOperation } from "${INDEX}";\nexport default { secrets: ["CARDS"] };\n`,
      },
    ],
    "whose name is one of a secret": ["PAYMENT_TOKEN", { "a.ts": throwing }],
  };
  for (const [what, [name, files]] of Object.entries(SOURCES)) {
    test(what, async () => {
      const error = await refusal(await folderOf(files), { [name]: KEY });
      const told = [
        error.message,
        error.hint,
        error.stack,
        error.cause instanceof Error ? error.cause.stack : "",
      ].join();
      assert.ok(!told.includes(KEY) && !/c2tfbGl2ZV9p|NrX2xpdmVfaW|za19saXZlX2/.test(told), told);
      assert.ok(error.message.includes(`bad [${name}], `), error.message);
    });
  }

  test("by the program, with --debug as well", async () => {
    const folder = await folderOf({
      "a.ts": `// CARDS\nthrow new Error("bad ${KEY}", { cause: new Error("${KEY}") });\n`,
    });
    const options = { environment: { CARDS: KEY } };
    const { exit, stdout, stderr } = await cli(["dev", "--tasks", folder, "--debug"], options);
    assert.equal(exit, 1);
    assert.match(stderr, /^task_file_broken .*\/a\.ts:2 cannot be loaded: Error: bad \[CARDS\]\n/);
    assert.match(stderr, /\n +at \S.*\/a\.ts:2:/);
    assert.ok(!`${stdout}${stderr}`.includes(KEY), stderr);
  });
});

test("a top-level await that does not settle is named while it is waited for, and fails in the end", async () => {
  const folder = await folderOf({ "a.ts": `await new Promise(() => {});\n${PLAIN}` });
  const lines: string[] = [];
  const bounds = { log: (_level: string, line: string) => lines.push(line), secrets: {}, slowMs: 20, timeoutMs: 200 };
  await assert.rejects(loadTasks(folder, bounds), {
    code: "task_file_broken",
    message: /a\.ts did not finish loading/,
  });
  assert.match(lines.join("\n"), /^\S+a\.ts has been loading for 20 ms/);
});

test("files that look like operations and are not loaded are told, and nothing else is", async () => {
  const folder = await folderOf({
    "good.ts": PLAIN,
    "good.js": PLAIN,
    "mail.send.ts": PLAIN,
    "charge card.ts": PLAIN,
    "übung.ts": PLAIN,
    "old.cts": PLAIN,
    "good.d.ts": "",
    "good.js.map": "",
    "readme.md": "",
    ".eslintrc.js": "",
    "lib/shared.ts": PLAIN,
  });
  await symlink(join(folder, "good.ts"), join(folder, "linked.ts"));
  const { plain, passedOver } = await loadTasks(folder);
  assert.deepEqual([...plain.keys()].sort(), ["good", "lib/shared", "linked"]);
  const names = passedOver.map((words) => words.split(" is not loaded: ")[0]).sort();
  assert.deepEqual(names, ["charge card.ts", "good.ts", "mail.send.ts", "old.cts", "übung.ts"]);
  assert.ok(passedOver.includes("good.ts is not loaded: good.js is"));
});
