/** The demo as somebody starts it: what it claims holds, and whatever ends it, nothing of it is left. */
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { CLAIMS, wantedClaims } from "../../src/demo/claims.ts";
import { waitFor } from "../harness/wait.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** The demo's own: it has ended by then, so that a word which did not come will not come. */
const OWN_BOUND_MS = 90_000;

/** Where the server's user cannot run the installed programs, a copy of them stays, for the next start. */
const SHARED_COPY = /^pg-effects-.+-\d+\.\d+\.\d+.*-\d+$/;

/** Everything temporary of the demo's lies in here, so that what is left of it can be seen. */
let scratch: string;
before(async () => {
  scratch = await mkdtemp(join(tmpdir(), "pg-effects-test-"));
  await chmod(scratch, 0o777); // the server's user must get through
});
const demos: Demo[] = [];
after(async () => {
  for (const { process, ended } of demos) {
    process.kill(); // of a test that failed half-way; it ends in order
    await ended;
  }
  await rm(scratch, { recursive: true, maxRetries: 5 });
});
beforeEach(assertNothingLeft);

interface Document {
  readonly holds: boolean;
  readonly claims: readonly { readonly claim: string; readonly holds: boolean; readonly requests: number | null }[];
  readonly differing: readonly unknown[];
  readonly faults: readonly string[];
  readonly effects: readonly { readonly requests: number; readonly ledger_says: string }[];
  readonly audit: readonly { readonly sql: string; readonly rows: readonly (readonly string[])[] }[];
  readonly processes: readonly number[];
  readonly kept: unknown;
}

test("the demo observes every claim of its list, and leaves no process and no folder", async () => {
  const demo = startDemo("--json");
  const [code] = await demo.ended;
  assert.equal(code, 0, demo.output());
  const document = JSON.parse(demo.output()) as Document;
  assert.deepEqual([document.differing, document.faults, document.kept], [[], [], null]);
  assert.deepEqual(
    document.claims.map(({ claim, holds }) => [claim, holds]).sort(),
    wantedClaims(false)
      .map((claim) => [claim, true])
      .sort(),
  );
  assert.deepEqual(
    document.effects.map(({ ledger_says, requests }) => [ledger_says, requests]),
    [
      ["accepted (by reconcile)", 1],
      ["accepted (by reconcile)", 1],
      ["no_effect (by reconcile)", 1],
      ["uncertain", 1],
      ["declined", 0],
    ],
  );
  assert.deepEqual(document.audit.find(({ sql }) => sql === "select * from audit.violations")?.rows, []);
  assert.ok(document.processes.length >= 5, "a server, and two workers of each side");
  assert.deepEqual(document.processes.filter(isAlive), []);
  assert.doesNotMatch(demo.output(), /postgres:\/\/|key_[0-9a-f]{32}/, "no password and no key in any output");
  await assertNothingLeft();
});

test("Ctrl-C ends it in order, at whatever it stands, with the code of the signal", async () => {
  const demo = startDemo();
  await demo.told(CLAIMS.charge_killed.says);
  demo.process.kill("SIGINT");
  const [code] = await demo.ended;
  assert.equal(code, 130, demo.output());
  assert.match(demo.output(), /SIGINT came at/);
  assert.match(demo.output(), new RegExp(`ok {2}${CLAIMS.nothing_left.says}`));
  await assertNothingLeft();
});

test("a demo that is killed takes its server, its workers and its folders along", async () => {
  const demo = startDemo();
  await demo.told("a new worker runs");
  const worker = Number(/a new worker runs, process (\d+)/.exec(demo.output())?.[1]);
  assert.ok(isAlive(worker));
  demo.process.kill("SIGKILL");
  await demo.ended;
  await waitFor("the end of its worker", () => !isAlive(worker));
  await waitFor("the end of everything else", async () => (await whatIsLeft()).length === 0);
});

interface Demo {
  readonly process: ChildProcess;
  readonly ended: Promise<unknown[]>;
  output(): string;
  /** Waits until it has printed this. */
  told(words: string): Promise<unknown>;
}

function startDemo(...flags: readonly string[]): Demo {
  const child = spawn(process.execPath, [MAIN, "demo", ...flags], {
    env: { PATH: process.env.PATH, TMPDIR: scratch },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      printed += String(chunk);
    });
  }
  const ended = once(child, "close");
  const told = (words: string) =>
    waitFor(
      `the words ${words}`,
      () => {
        assert.equal(child.exitCode, null, printed);
        return printed.includes(words);
      },
      { timeoutMs: OWN_BOUND_MS },
    );
  const demo = { process: child, ended, output: () => printed, told };
  demos.push(demo);
  return demo;
}

async function assertNothingLeft(): Promise<void> {
  assert.deepEqual(await whatIsLeft(), []);
}

/** Folders of the demo's, and processes that were started with one. */
async function whatIsLeft(): Promise<readonly string[]> {
  const folders = (await readdir(scratch)).filter((name) => !SHARED_COPY.test(name));
  const { stdout } = await promisify(execFile)("ps", ["-A", "-o", "pid=,args="]);
  return [...folders, ...stdout.split("\n").filter((line) => line.includes(scratch))];
}

function isAlive(processId: number): boolean {
  try {
    return process.kill(processId, 0);
  } catch {
    return false;
  }
}
