/** The command line under each role's login: what it needs it may do, and what it may not is refused in words. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { cli, cliJson, failing, running, TASKS } from "../cli/run.ts";
import { register } from "../harness/registration.ts";
import { waitFor } from "../harness/wait.ts";
import { openRoleLedger } from "./with-roles.ts";

const subject = await openRoleLedger();
const login = async (label: string, ...roles: Parameters<typeof subject.login>[1][]) => ({
  database: (await subject.login(label, ...roles)).connectionString,
});
const owner = await login("login_owner", "owner");
const shop = await login("login_shop", "service");
const sender = await login("login_worker", "worker");
const operator = await login("login_operator", "operator");
const auditor = await login("login_auditor", "auditor");
const agent = "agent 7";

before(() => register(subject.connectionString, TASKS));

const done = async (args: readonly string[], as: { readonly database: string }) => {
  const { exit, stdout, stderr } = await cli(args, as);
  assert.equal(exit, 0, `${args.join(" ")}: ${stderr}`);
  return stdout;
};
const refused = async (args: readonly string[], as: { readonly database: string }) => {
  const { exit, code, hint } = await failing(args, as);
  assert.deepEqual([exit, code], [4, "42501"], args.join(" "));
  assert.match(hint, /docs\/roles\.md|member/);
};

test("a worker and a service need no other role: it is requested, carried out, and waited for", async () => {
  const worker = await running(["worker", "--tasks", TASKS], "operations", sender);
  try {
    const asked = await cliJson<{ effect: { state: string }; effect_id: string }>(
      ["enqueue", "sure", '{"note":"a"}', "--wait", "20s"],
      shop,
    );
    assert.deepEqual([asked.exit, asked.document.effect.state], [0, "accepted"]);
    assert.match(await done(["enqueue", "sure", '{"note":"b"}', "--wait", "20s"], shop), /accepted via dispatch/);
    await done(["task", "open", "customers/42", "--budget", "usd_cents=5"], shop);
    await done(["task", "end", "customers/42"], shop);
    await done(["pause", "--all", "--reason", "INC-91"], operator);
    const id = (await done(["enqueue", "sure", '{"note":"held"}'], shop)).trim();
    await waitFor("it is prepared, and waits", () =>
      subject.value("select waiting_for from audit.effects where effect_id = $1", [id]),
    );
    assert.match(await done(["explain", id], operator), /8 ledger +ok(.|\n)*waits for paused/);
    await done(["resume", "--all", "--reason", "INC-91"], operator);
  } finally {
    worker.child.kill("SIGTERM");
    await worker.ended;
  }
});

test("the owner gives, with a reason that the history shows", async () => {
  await done(
    ["actor", "add", agent, "--spoken-by", `${subject.prefix}login_shop`, "--reason", "answers customers"],
    owner,
  );
  await done(
    ["task", "open", "payments", "--root", "--reason", "the team", "--budget", "usd_cents=100", "--actor", agent],
    owner,
  );
  await done(["task", "observe", "payments", "--actor", `${subject.prefix}login_shop`, "--reason", "they help"], owner);
  await done(["budget", "set", "payments", "usd_cents=500", "--reason", "more"], owner);
  await done(["enqueue", "sure", '{"note":"d"}', "--task", "payments", "--actor", agent], shop);
  assert.match(await done(["budget", "show", "payments"], owner), /500/);
  const history = await done(["history"], auditor);
  for (const line of [
    /added actor agent 7/,
    /speaker added actor agent 7/,
    /opened task payments/,
    /observer added task payments/,
  ]) {
    assert.match(history, line);
  }
});

test("the operator looks, holds back and takes away", async () => {
  const id = (await done(["enqueue", "lost", '{"note":"c"}'], shop)).trim();
  const looks = [["list"], ["show", id], ["unresolved"], ["denials"], ["operation", "list"], ["doctor"]];
  await Promise.all(looks.map((args) => done(args, operator)));
  await done(
    ["task", "observe", "payments", "--actor", `${subject.prefix}login_shop`, "--revoke", "--reason", "done"],
    operator,
  );
  assert.match(
    await done(
      ["actor", "revoke", agent, "--spoken-by", `${subject.prefix}login_shop`, "--reason", "leaked"],
      operator,
    ),
    /speaks for actor agent 7 no longer/,
  );
  await done(["actor", "revoke", agent, "--reason", "leaked"], operator);
});

test("an auditor reads, and nothing else", async () => {
  await Promise.all([["list"], ["unresolved"], ["doctor"], ["history"]].map((args) => done(args, auditor)));
  await refused(["enqueue", "sure", "{}"], auditor);
  await refused(["pause", "--all", "--reason", "x"], auditor);
});

test("what is another role's is refused, with what to read", async () => {
  await refused(["budget", "set", "payments", "usd_cents=1", "--reason", "x"], operator);
  await refused(["actor", "add", "x", "--reason", "x"], operator);
  await refused(["task", "open", "x", "--root", "--reason", "x"], shop);
  await refused(["pause", "--all", "--reason", "x"], shop);
  await refused(["list"], shop);
  await refused(["reconcile", "--all", "--deadline", "1m"], owner);
  await refused(["worker", "--tasks", TASKS], await login("login_nobody"));
  const { exit, code } = await failing(["worker", "--tasks", TASKS], shop);
  assert.deepEqual([exit, code], [4, "worker_role_missing"]);
});
