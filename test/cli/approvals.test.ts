/** `approver` and `approval`: a person's key, what awaits it, and a signature made here or with openssl alone. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { waitFor } from "../harness/wait.ts";
import { cli, cliJson, failing } from "./run.ts";

const book = await openTestLedger();
const database = book.connectionString;
const run = (...args: readonly string[]) => cli(args, { database });
const charge = countedOperation("charge_card", { contract: { expiresAfterMs: 3_600_000 } });
const folder = await mkdtemp(join(tmpdir(), "pg-effects-keys-"));
book.atEnd(() => rm(folder, { recursive: true }));

/** A key pair as files, as openssl writes them. */
async function keyPair(person: string) {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const pem = join(folder, `${person}.pem`);
  const publicPem = join(folder, `${person}.pub.pem`);
  await writeFile(pem, privateKey.export({ format: "pem", type: "pkcs8" }));
  await writeFile(publicPem, publicKey.export({ format: "pem", type: "spki" }));
  return { pem, publicPem };
}
const [ana, ben, eve] = await Promise.all(["ana", "ben", "eve"].map(keyPair));
assert.ok(ana && ben && eve);

before(async () => {
  await book.work({ operations: [charge.operation] });
  await book.sql(
    "select effects.protect_operation('charge_card', 'test'), effects.allow_operation('charge_card', 1, 'test')",
  );
  const added = await run("approver", "add", "ana", "--key", ana.publicPem, "--reason", "joined");
  assert.match(added.stdout, /^[0-9a-f]{32}\n$/);
  await run("approver", "add", "ben", "--key", ben.publicPem, "--reason", "joined");
  await book.ledger.openTask("shop", { budgets: { usd_cents: 100_000n } });
  await book.sql(
    `select effects.add_policy('charges', 'charge_card', 1, 'test', task => 'shop', approvals_needed => 1,
       approvers => '{ana,ben}', costs => '[{"unit": "usd_cents", "limit": "5000"}]')`,
  );
});

let count = 0;
/** An effect that awaits approval, by its name, which is its target, too. */
async function waiting(): Promise<string> {
  const name = `order/${++count}`;
  const id = await book.ledger.enqueue(charge.operation, { to: name, cents: 4_000 }, { task: "shop", name });
  await waitFor("it waits for approval", () =>
    book.value<boolean>("select waiting_for is not distinct from 'approval' from audit.effects where effect_id = $1", [
      id,
    ]),
  );
  return name;
}
const accepted = (name: string) =>
  waitFor(`${name} is accepted`, () =>
    book.value<boolean>("select state = 'accepted' from audit.effects where name = $1", [name]),
  );
const file = (name: string) => join(folder, name);

describe("approver", () => {
  test("add takes a file or hex digits, says the same id, and list shows whose key it is", async () => {
    const hex = execFileSync("openssl", ["pkey", "-pubin", "-in", ana.publicPem, "-outform", "DER"]).subarray(-32);
    const add = ["approver", "add", "ana", "--key", hex.toString("hex"), "--reason", "again"];
    const { document } = await cliJson<{ key_id: string; public_key: string }>(add, { database });
    assert.equal(document.public_key, hex.toString("hex"));
    const { stdout } = await run("approver", "list");
    assert.match(stdout, /^approver +key +added +standing\n/);
    assert.match(stdout, new RegExp(`\\nana +${document.key_id} +\\S+ by postgres +live\\n`));
  });

  test("add refuses a private key and repeats nothing of it", async () => {
    const secret = (await readFile(eve.pem, "utf8")).split("\n")[1] ?? "";
    assert.ok(secret.length >= 32);
    const refused = await failing(["approver", "add", "eve", "--key", eve.pem, "--reason", "x"], { database });
    assert.deepEqual([refused.exit, refused.code], [2, "key_private"]);
    assert.ok(!JSON.stringify(refused).includes(secret));
    const debug = await cli(["approver", "add", "eve", "--key", eve.pem, "--reason", "x", "--debug"], { database });
    assert.ok(!`${debug.stdout}${debug.stderr}`.includes(secret));
    assert.equal(await book.value("select count(*) from audit.approvers where approver = 'eve'"), "0");
  });

  test("add refuses what is no Ed25519 key, and a file that is not there", async () => {
    const { publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
    await writeFile(file("ec.pem"), publicKey.export({ format: "pem", type: "spki" }));
    await writeFile(file("words.pem"), "no key at all");
    const add = (key: string) => failing(["approver", "add", "x", "--key", key, "--reason", "x"], { database });
    const [curve, words, none] = await Promise.all([
      add(file("ec.pem")),
      add(file("words.pem")),
      add(file("none.pem")),
    ]);
    assert.deepEqual([curve.exit, curve.code], [2, "key_invalid"]);
    assert.match(curve.message, /kind ec,/);
    assert.deepEqual([words.exit, words.code], [2, "key_invalid"]);
    assert.deepEqual([none.exit, none.code], [2, "input_unreadable"]);
  });

  test("revoke takes a key by its last eight digits; its dry run does not", async () => {
    const cyd = await keyPair("cyd");
    const { stdout: id } = await run("approver", "add", "cyd", "--key", cyd.publicPem, "--reason", "joined");
    const revoke = ["approver", "revoke", id.trim().slice(-8), "--reason", "lost"];
    const dry = await run(...revoke, "--dry-run");
    assert.match(
      dry.stdout,
      /^approver key [0-9a-f]{8} would be revoked, for good; nothing is changed\n {2}waiting +0\n/,
    );
    assert.equal(await book.value("select revoked_at from audit.approvers where approver = 'cyd'"), null);
    assert.equal((await run(...revoke)).exit, 0);
    assert.match(
      (await run("approver", "list")).stdout,
      new RegExp(`\\ncyd +${id.trim()} +\\S+ by postgres +revoked `),
    );
    const again = await failing(["approver", "add", "cyd", "--key", cyd.publicPem, "--reason", "x"], { database });
    assert.deepEqual([again.exit, again.code], [4, "PE114"]);
    const unknown = await failing(["approver", "revoke", "dan", "--reason", "x"], { database });
    assert.deepEqual([unknown.exit, unknown.code], [4, "PE115"]);
  });
});

describe("approval", () => {
  test("list shows what awaits whom, and --wait ends when something does, or with exit code 5", async () => {
    const none = await run("approval", "list", "--wait", "200ms");
    assert.deepEqual([none.exit, none.stdout], [5, ""]);
    assert.match(none.stderr, /^nothing awaits approval\n/);
    const [shown, name] = await Promise.all([run("approval", "list", "--wait", "20s"), waiting()]);
    assert.equal(shown.exit, 0);
    assert.match(
      shown.stdout,
      /^effect +name +operation +preview +maximum cost +requested by +policy +approvals +expires\n/,
    );
    assert.match(
      shown.stdout,
      /\n[0-9a-f]{8} +order\/1 +charge_card 1 +\S.* 4000 usd_cents +postgres +charges +0 of 1: ana, ben +\d/,
    );
    await run("approval", "refuse", name, "--reason", "seen");
  });

  test("approve --key shows on stderr what it signs, and the effect runs once", async () => {
    const name = await waiting();
    const approved = await run("approval", "approve", name, "--key", ana.pem);
    assert.equal(approved.exit, 0);
    assert.match(approved.stdout, new RegExp(`^approved ${name} as ana: approval [0-9a-f]{8}\\n$`));
    const digest = await book.value<string>("select digest from audit.effects where name = $1", [name]);
    assert.match(
      approved.stderr,
      new RegExp(`^approval of charge_card 1 {2}${name} \\([0-9a-f]{8}\\)\\n {2}preview +\\S`),
    );
    assert.match(
      approved.stderr,
      new RegExp(`\\n {2}target +${name}\\n {2}account +none named\\n {2}maximum cost +4000 usd_cents\\n`),
    );
    assert.match(
      approved.stderr,
      new RegExp(`\\n {2}expires +\\d.*\\n {2}digest +${digest}, recomputed from what is bound\\n$`),
    );
    await accepted(name);
    assert.equal(charge.hits(name), 1);
    const shown = await run("approval", "show", name);
    assert.match(shown.stdout, /\n {2}[0-9a-f]{8} +approved +ana +[0-9a-f]{8} +\S+ by postgres +yes\n$/);
  });

  test("a statement is signed with openssl alone, and what openssl signed is submitted", async () => {
    const name = await waiting();
    const piped = await run("approval", "statement", name);
    assert.match(piped.stdout, /^pg-effects\/approval\/1\n\{"digest":/);
    assert.match(piped.stderr, /^approval of charge_card 1 /);
    const written = await run("approval", "statement", name, "--out", file("statement"));
    assert.deepEqual([written.exit, written.stdout], [0, ""]);
    execFileSync("openssl", [
      ..."pkeyutl -sign -rawin".split(" "),
      ...["-inkey", ben.pem, "-in", file("statement"), "-out", file("signature")],
    ]);
    const approve = ["approval", "approve", name, "--statement", file("statement"), "--signature", file("signature")];
    const wrong = await failing([...approve, "--key-id", "ana"], { database });
    assert.deepEqual([wrong.exit, wrong.code], [4, "signature_wrong"]);
    assert.equal(charge.hits(name), 0);
    const approved = await run(...approve, "--key-id", "ben");
    assert.equal(approved.exit, 0);
    await accepted(name);
  });

  test("a statement in which one byte was changed is refused, and nothing is recorded", async () => {
    const name = await waiting();
    await run("approval", "statement", name, "--out", file("original"));
    const sign = ["pkeyutl", "-sign", "-rawin", "-inkey", ana.pem, "-in", file("original"), "-out", file("signed")];
    execFileSync("openssl", sign);
    const changed = (await readFile(file("original"), "utf8")).replace('"4000"', '"4001"');
    await writeFile(file("changed"), changed);
    const approve = (statement: string) => [
      "approval",
      "approve",
      name,
      "--statement",
      file(statement),
      "--signature",
      file("signed"),
      "--key-id",
      "ana",
    ];
    const refused = await failing(approve("changed"), { database });
    assert.deepEqual([refused.exit, refused.code], [4, "signature_wrong"]);
    assert.equal(
      await book.value(
        "select count(*) from audit.approvals a join audit.effects e using (effect_id) where e.name = $1",
        [name],
      ),
      "0",
    );
    // The original is another effect's, once this one is named.
    const other = await waiting();
    const mixed = await failing(["approval", "approve", other, ...approve("original").slice(3)], { database });
    assert.deepEqual([mixed.exit, mixed.code], [4, "statement_differs"]);
    assert.equal((await run(...approve("original"))).exit, 0);
    await accepted(name);
    await run("approval", "refuse", other, "--reason", "seen");
  });

  test("a stranger's key, wrong usage and what awaits nothing are refused by name", async () => {
    const name = await waiting();
    const approve = ["approval", "approve", name];
    const [stranger, both, half, none, short] = await Promise.all([
      failing([...approve, "--key", eve.pem], { database }),
      failing([...approve, "--key", ana.pem, "--key-id", "ana"], { database }),
      failing([...approve, "--statement", "x"], { database }),
      failing(["approval", "approve", "order/none", "--key", ana.pem], { database }),
      failing([...approve, "--statement", ana.publicPem, "--signature", ana.publicPem, "--key-id", "ana"], {
        database,
      }),
    ]);
    assert.deepEqual([stranger.exit, stranger.code], [4, "PE115"]);
    assert.deepEqual([both.exit, both.code], [2, "usage_invalid"]);
    assert.deepEqual([half.exit, half.code], [2, "usage_invalid"]);
    assert.deepEqual([none.exit, none.code], [4, "effect_unknown"]);
    assert.deepEqual([short.exit, short.code], [2, "signature_invalid"]);
    const refused = await run("approval", "refuse", name, "--reason", "not this customer");
    assert.match(refused.stdout, new RegExp(`^refused ${name} \\(charge_card 1\\): it is declined`));
    const decided = await failing([...approve, "--key", ana.pem], { database });
    assert.deepEqual([decided.exit, decided.code], [4, "approval_unwanted"]);
    assert.match(decided.message, /awaits no approval: declined, refused: approval_refused/);
    const shown = await run("show", name);
    assert.match(shown.stdout, / declined +postgres +refused, approval_refused, not this customer, by postgres\n/);
  });

  test("revoke takes an approval back in time, or says that it came too late; show tells of both", async () => {
    const name = await waiting();
    await book.sql("select effects.pause('operation', 'charge_card', 'so that it waits')");
    await run("approval", "approve", name, "--key", ana.pem);
    const { document } = await cliJson<{ approvals: readonly { approval_id: string }[] }>(["approval", "show", name], {
      database,
    });
    const short = document.approvals[0]?.approval_id.slice(-8) ?? "";
    const dry = await run("approval", "revoke", short, "--reason", "a mistake", "--dry-run");
    assert.match(
      dry.stdout,
      new RegExp(
        `^approval ${short} would be revoked, for good; nothing is changed\\n {2}in time: effect \\w+ is prepared\\n$`,
      ),
    );
    const revoked = await run("approval", "revoke", short, "--reason", "a mistake");
    assert.match(revoked.stdout, new RegExp(`^revoked approval ${short}\\n {2}in time: effect \\w+ is prepared\\n$`));
    await book.sql("select effects.resume('operation', 'charge_card', 'over')");
    const timeline = (await run("show", name)).stdout;
    assert.match(
      timeline,
      new RegExp(` approval_submitted +postgres +approval ${short}, by ana, key [0-9a-f]{8}, digest `),
    );
    assert.match(timeline, new RegExp(` approval_revoked +postgres +a mistake, approval ${short}, by ana\\n`));

    await run("approval", "approve", name, "--key", ben.pem);
    await accepted(name);
    assert.equal(charge.hits(name), 1);
    const after = await cliJson<{ approvals: readonly { approval_id: string; approver: string }[] }>(
      ["approval", "show", name],
      { database },
    );
    const late = after.document.approvals.find(({ approver }) => approver === "ben")?.approval_id ?? "";
    assert.match(
      (await run("approval", "revoke", late, "--reason", "x")).stdout,
      /\n {2}too late for effect \w+: it was admitted before, and is accepted\n$/,
    );
    const unknown = await failing(["approval", "revoke", "00000000", "--reason", "x"], { database });
    assert.deepEqual([unknown.exit, unknown.code], [4, "approval_unknown"]);
  });
});
