/** An approver who has a login of the role `approver` and no schema audit: sees what waits, signs, refuses, and no more. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { countedOperation } from "../harness/counted-operation.ts";
import { waitFor } from "../harness/wait.ts";
import { openRoleLedger } from "../roles/with-roles.ts";
import { cli, failing } from "./run.ts";

const book = await openRoleLedger();
const [approver, owner] = await Promise.all([
  book.login("login_approver", "approver"),
  book.login("login_owner", "owner"),
]);
const asApprover = (...args: readonly string[]) => cli(args, { database: approver.connectionString });
const asOwner = (...args: readonly string[]) => cli(args, { database: owner.connectionString });
const charge = countedOperation("charge_card", { contract: { expiresAfterMs: 3_600_000 } });
const folder = await mkdtemp(join(tmpdir(), "pg-effects-keys-"));
book.atEnd(() => rm(folder, { recursive: true }));
const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const pem = join(folder, "key.pem");

before(async () => {
  await book.work({ operations: [charge.operation] });
  await writeFile(pem, privateKey.export({ format: "pem", type: "pkcs8" }));
  await writeFile(`${pem}.pub`, publicKey.export({ format: "pem", type: "spki" }));
  await writeFile(
    join(folder, "authority.json"),
    JSON.stringify({
      format: "pg-effects/authority/1",
      reason: "by the owner's login",
      tasks: [{ name: "shop", budgets: { usd_cents: "100000" } }],
      approvers: [{ approver: "ana", public_key: publicKey.export({ format: "pem", type: "spki" }) }],
      operations: [{ operation: "charge_card", protected: true }],
      policies: [
        {
          ...{ name: "charges", operation: "charge_card", version: 1, task: "shop", costs: { usd_cents: "5000" } },
          ...{ approvals_needed: 1, approvers: ["ana"] },
        },
      ],
    }),
  );
  const applied = await asOwner("apply", join(folder, "authority.json"));
  assert.equal(applied.exit, 0, applied.stderr);
  assert.equal((await asOwner("operation", "allow", "charge_card", "1", "--reason", "reviewed")).exit, 0);
});

async function waiting(name: string): Promise<void> {
  const id = await book.value<string>(
    "select effects.enqueue('charge_card', json_build_object('to', $1::text, 'cents', 4000), task => 'shop', name => $1)",
    [name],
  );
  await waitFor("it waits for approval", () =>
    book.value<boolean>("select waiting_for is not distinct from 'approval' from audit.effects where effect_id = $1", [
      id,
    ]),
  );
}

test("an approver's login lists, states and approves", async () => {
  await waiting("order/1");
  assert.match((await asApprover("approval", "list")).stdout, /\n[0-9a-f]{8} +order\/1 +charge_card 1 /);
  const stated = await asApprover("approval", "statement", "shop:order/1");
  assert.match(stated.stdout, /^pg-effects\/approval\/1\n/);
  const approved = await asApprover("approval", "approve", "order/1", "--key", pem);
  assert.deepEqual([approved.exit, approved.stdout.slice(0, 23)], [0, "approved order/1 as ana"]);
  await waitFor("it is accepted", () =>
    book.value("select state = 'accepted' from audit.effects where name = 'order/1'"),
  );
  const by = await book.value("select submitted_by from audit.approvals where counted");
  assert.equal(by, approver.name);
});

test("it refuses, and what awaits nothing is unknown to it", async () => {
  await waiting("order/2");
  assert.equal((await asApprover("approval", "refuse", "order/2", "--reason", "not this one")).exit, 0);
  const refused = await failing(["approval", "statement", "order/2"], { database: approver.connectionString });
  assert.deepEqual([refused.exit, refused.code], [4, "effect_unknown"]);
});

test("it gives itself no key, and the owner approves nothing", async () => {
  const add = ["approver", "add", "eve", "--key", `${pem}.pub`, "--reason", "x"];
  const given = await failing(add, { database: approver.connectionString });
  assert.deepEqual([given.exit, given.code], [4, "42501"]);
  await waiting("order/3");
  const approve = ["approval", "approve", "order/3", "--key", pem];
  const approved = await failing(approve, { database: owner.connectionString });
  assert.deepEqual([approved.exit, approved.code], [4, "42501"]);
  assert.equal(charge.hits("order/3"), 0);
});
