/** What the command line says about inline effects: who is asked about, how one is called, and what can be done next. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { cli, failing } from "../cli/run.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { calls, lost, openHost, unresolved } from "./calls.ts";

const subject = await openTestLedger();
const { effect } = openHost(subject);
const database = subject.connectionString;

before(() => assert.rejects(effect("charge", calls({ run: lost })), unresolved));

test("a reconciliation of everything says that it leaves inline effects out", async () => {
  const { exit, stdout, stderr } = await cli(["reconcile", "--all", "--deadline", "20s"], { database });
  assert.equal(exit, 0, stderr);
  assert.match(stdout + stderr, /left out: 1 inline effect, which their hosts ask about, or somebody resolves/);
});

test("one asked for by its run and name is refused, with what to do instead", async () => {
  const refused = await failing(["reconcile", "--effect", "order-42/charge", "--deadline", "20s"], { database });
  assert.deepEqual([refused.exit, refused.code], [4, "PE122"]);
});

test("it is shown by its run and name, with its intent and why nobody can tell", async () => {
  const { exit, stdout } = await cli(["show", "order-42/charge"], { database });
  assert.equal(exit, 3);
  assert.match(stdout, /intent +.*run order-42, name charge/);
  assert.match(stdout, /unresolved +.*run threw Error/);
});

test("the list of doubts says that its host asks, or somebody resolves it", async () => {
  const { exit, stdout } = await cli(["unresolved"], { database });
  assert.equal(exit, 3);
  assert.match(stdout, /inline +default +charge .* its host asks, or resolve/);
});
