/** `enqueue`, `show`, `list` and `unresolved` against a ledger with a worker: what they print, and what they exit with. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import pg from "pg";
import { findEffect } from "../../src/cli/find-effect.ts";
import { auditOn } from "../../src/store/audit.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { refusal } from "./refusal.ts";
import { cli, cliJson, failing, running, TASKS } from "./run.ts";

const book = await openTestLedger();
const database = book.connectionString;

interface EnqueueDocument {
  readonly effect_id: string;
  readonly effect: { readonly state: string; readonly unresolved: boolean; readonly key: string };
}

before(async () => {
  const worker = await running(["worker", "--tasks", TASKS], "operations lost stray sure", { database });
  book.atEnd(async () => {
    worker.child.kill("SIGTERM");
    assert.equal((await worker.ended).exit, 0);
  });
});

/** Requests by SQL, which is faster than a process, and waits for its ending. */
async function ended(operation: string, input: object, name: string | null = null): Promise<string> {
  const id = await book.value<string>("select effects.enqueue($1, $2::json, name => $3)", [
    operation,
    JSON.stringify(input),
    name,
  ]);
  await book.ended(id);
  return id;
}

describe("enqueue", () => {
  test("prints the id, and with --wait where it ended", async () => {
    const [plain, waiting] = await Promise.all([
      cli(["enqueue", "sure", '{"note":"plain"}'], { database }),
      cli(["enqueue", "sure", '{"note":"waited for"}', "--wait", "20s"], { database }),
    ]);
    assert.equal(plain.exit, 0);
    assert.match(plain.stdout, /^[0-9a-f-]{36}\n$/);
    assert.equal(waiting.exit, 0);
    assert.match(waiting.stdout, /^[0-9a-f-]{36}\naccepted via dispatch\n {2}\{"receipt":"rcpt_[0-9a-f]{12}"\}\n$/);
  });

  test("exits 3 where it ended unresolved, 4 where it was declined, 5 where it has not ended", async () => {
    const wait = ["--wait", "20s"];
    const [lost, declined, later] = await Promise.all([
      cliJson<EnqueueDocument>(["enqueue", "lost", '{"cents":5,"found":"busy"}', ...wait], { database }),
      cli(["enqueue", "sure", '{"note":1}', ...wait], { database }),
      cli(["enqueue", "sure", '{"note":"later"}', "--not-before", "1h", "--wait", "50ms"], { database }),
    ]);
    assert.equal(lost.exit, 3);
    assert.deepEqual([lost.document.effect.state, lost.document.effect.unresolved], ["admitted", true]);
    assert.equal(declined.exit, 4);
    assert.match(declined.stdout, /\ndeclined, invalid: input_invalid\n.*\n.*\/note: .*expected string/);
    assert.equal(later.exit, 5);
    assert.match(later.stdout, /\nrequested, not before \d/);
    assert.match(later.stderr, /it goes on: pg-effects show [0-9a-f-]{36}/);
  });

  test("hands the text on unchanged, from a file and stdin too: a repeated key is refused by the ledger", async () => {
    const folder = await mkdtemp(join(tmpdir(), "pg-effects-"));
    book.atEnd(() => rm(folder, { recursive: true }));
    const file = join(folder, "input.json");
    await writeFile(file, '{"note":"from a file"}\n');
    const [repeated, large, fromFile, fromStdin, latin1] = await Promise.all([
      failing(["enqueue", "sure", '{"note":"a","note":"b"}'], { database }),
      refusal(["enqueue", "lost", '{"cents":9007199254740993,"found":"busy"}'], database),
      cli(["enqueue", "sure", `@${file}`, "--name", "from/file"], { database }),
      cli(["enqueue", "sure", "-", "--name", "from/stdin"], { database, stdin: '{"note":"größer"}' }),
      failing(["enqueue", "sure", "-"], { database, stdin: Buffer.from('{"note":"größer"}', "latin1") }),
    ]);
    assert.deepEqual([repeated.exit, repeated.code], [4, "PE102"]);
    assert.deepEqual([large.exit, large.code], [4, "PE102"]);
    assert.deepEqual([fromFile.exit, fromStdin.exit], [0, 0]);
    assert.deepEqual([latin1.exit, latin1.code], [2, "input_unreadable"]);
    const given = await book.sql(
      "select r.name, i.given ->> 'note' as note from effects_payload.input i join effects_ledger.request r using (effect_id) where r.name like 'from/%' order by r.name",
    );
    assert.deepEqual(given, [
      { name: "from/file", note: "from a file" },
      { name: "from/stdin", note: "größer" },
    ]);
  });

  test("the same name with the same request prints the same id; another request is a conflict", async () => {
    const named = (note: string) => ["enqueue", "sure", JSON.stringify({ note }), "--name", "order/1"];
    const first = await cli(named("receipt"), { database });
    const [again, other] = await Promise.all([cli(named("receipt"), { database }), refusal(named("other"), database)]);
    assert.equal(again.stdout, first.stdout);
    assert.deepEqual([other.exit, other.code], [4, "PE104"]);
  });

  test("an unknown operation or task is refused, and what has no worker is said to wait", async () => {
    await book.sql(
      "select effects_ledger.register_operations((select json_agg(json_build_object('operation', 'orphan', 'version', 1," +
        " 'contract', contract, 'contract_digest', encode(contract_digest, 'hex'), 'input_schema', input_schema," +
        " 'implementation', implementation, 'release', release)) from effects_ledger.operation where operation = 'sure')::jsonb)",
    );
    const [operation, task, orphan] = await Promise.all([
      refusal(["enqueue", "no_such", "{}"], database),
      refusal(["enqueue", "sure", '{"note":"x"}', "--task", "customers/none"], database),
      cli(["enqueue", "orphan", '{"note":"x"}'], { database }),
    ]);
    assert.deepEqual([operation.exit, operation.code], [4, "PE101"]);
    assert.deepEqual([task.exit, task.code], [4, "PE103"]);
    assert.equal(orphan.exit, 0);
    assert.match(orphan.stderr, /no live worker has orphan/);
  });
});

describe("show", () => {
  interface ShowDocument {
    readonly effect: { readonly effect_id: string };
    readonly costs: readonly { readonly reserved: string }[];
    readonly timeline: readonly { readonly what: string }[];
  }

  test("finds an effect by id, short id, name, task and name, key and reference", async () => {
    const id = await ended("sure", { note: "sought" }, "sought/1");
    const [{ key, reference } = { key: "", reference: "" }] = await book.sql<{ key: string; reference: string }>(
      "select key, reference from audit.effects where effect_id = $1",
      [id],
    );
    const pool = new pg.Pool({ connectionString: database, max: 1 });
    const audit = auditOn(pool);
    book.atEnd(() => pool.end());
    for (const name of [
      id,
      id.toUpperCase(),
      id.slice(-8),
      id.slice(-8).toUpperCase(),
      "default:sought/1",
      key,
      reference,
    ]) {
      assert.equal((await findEffect(audit, name)).effect_id, id, name);
    }
    const { exit, document } = await cliJson<ShowDocument>(["show", "sought/1"], { database });
    assert.deepEqual([exit, document.effect.effect_id], [0, id]);
    assert.deepEqual(
      document.timeline.map(({ what }) => what),
      ["requested", "prepared", "admitted", "accepted"],
    );
  });

  test("exits 3 where it is unresolved, and says since when, what is held and what to do", async () => {
    const id = await ended("lost", { cents: 4_000, found: "busy" }, "order/42/charge");
    const { exit, stdout } = await cli(["show", "order/42/charge"], { database });
    assert.equal(exit, 3);
    assert.match(stdout, /^order\/42\/charge {2}lost 1 {2}admitted, unresolved since \d\d:\d\d:\d\d \(\d+ m?s\)\n/);
    assert.match(stdout, /\n {2}cost +4000 usd_cents held\n/);
    assert.match(stdout, /unresolved +\S+ +the connection was cut after the request\n/);
    assert.match(stdout, new RegExp(`pg-effects reconcile --effect ${id.slice(-8)} --deadline`));
    const { document } = await cliJson<ShowDocument>(["show", id], { database });
    assert.deepEqual(
      document.costs.map(({ reserved }) => reserved),
      ["4000"],
    );
  });

  test("refuses what nothing goes by, and what several go by, with the candidates", async () => {
    const id = await ended("sure", { note: "first" });
    await ended("sure", { note: "named like another's short id" }, id.slice(-8));
    const [unknown, ambiguous, words] = await Promise.all([
      failing(["show", "deadbeef-no"], { database }),
      cliJson<{ error: { code: string; candidates: { effect_id: string }[] } }>(["show", id.slice(-8)], { database }),
      cli(["show", id.slice(-8)], { database }),
    ]);
    assert.deepEqual([unknown.exit, unknown.code], [4, "effect_unknown"]);
    assert.deepEqual([ambiguous.exit, ambiguous.document.error.code], [4, "effect_ambiguous"]);
    assert.equal(ambiguous.document.error.candidates.length, 2);
    assert.ok(ambiguous.document.error.candidates.some(({ effect_id }) => effect_id === id));
    assert.match(words.stderr, new RegExp(`^effect_ambiguous {2}2 effects go by .*\n.*${id}`));
  });
});

describe("list", () => {
  test("is newest first, filtered and bounded", async () => {
    const declined = await ended("sure", { note: 0 }, "list/declined");
    const [one, state, task] = await Promise.all([
      cli(["list", "--limit", "1"], { database }),
      cliJson<{ effect_id: string; state: string }[]>(["list", "--state", "declined", "--since", "1h"], { database }),
      cliJson<unknown[]>(["list", "--task", "default", "--operation", "lost", "--limit", "1"], { database }),
    ]);
    assert.equal(one.stdout.trimEnd().split("\n").length, 2);
    assert.match(
      one.stdout,
      new RegExp(`^effect +requested .*\n${declined.slice(-8)} .*declined, invalid: input_invalid\n$`),
    );
    assert.match(one.stderr, /the newest 1; --limit shows more/);
    assert.ok(state.document.length > 0 && state.document.every((effect) => effect.state === "declined"));
    assert.equal(state.document[0]?.effect_id, declined);
    assert.equal(task.document.length, 1);
  });

  test("an operation or task that there is none of is refused instead of listing nothing", async () => {
    const [operation, task, nothing] = await Promise.all([
      refusal(["list", "--operation", "shure"], database),
      refusal(["list", "--task", "customers/none"], database),
      cliJson(["list", "--operation", "sure", "--state", "uncertain"], { database }),
    ]);
    assert.deepEqual([operation.exit, operation.code], [4, "operation_unknown"]);
    assert.deepEqual([task.exit, task.code], [4, "task_unknown"]);
    assert.deepEqual([nothing.exit, nothing.document], [0, []]);
  });
});

test("unresolved says how much is held, one by one and by group, and exits 3", async () => {
  await ended("lost", { cents: 11, found: "busy" }, "unresolved/1");
  const held = await book.value<string>("select sum(reserved) from audit.costs where standing = 'reserved'");
  const [each, groups, targets] = await Promise.all([
    cli(["unresolved"], { database }),
    cli(["unresolved", "--by", "operation"], { database }),
    cliJson<{ unresolved: { group: string; held: object }[] }>(["unresolved", "--by", "target"], { database }),
  ]);
  assert.deepEqual([each.exit, groups.exit, targets.exit], [3, 3, 3]);
  assert.match(each.stdout, /lost +default +unresolved\/1 +\d+ \w+ +11 usd_cents +the connection was cut/);
  assert.match(
    each.stdout,
    /exit 3 {6}\d+ effects are unresolved; those not asked about yet: pg-effects reconcile --all/,
  );
  assert.match(groups.stdout, new RegExp(`lost +\\d+ +\\d+ \\w+ +${held} usd_cents\n`));
  assert.deepEqual(
    targets.document.unresolved.map((sum) => [sum.group, sum.held]),
    [["card of customer 42", { usd_cents: held }]],
  );
});
