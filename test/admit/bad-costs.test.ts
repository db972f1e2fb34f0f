/**
 * Operations whose code gives no amounts: as the contract's maximum, as what `prepare` lowers it to, as what was measured.
 * Nothing is reserved for what is no amount, and nothing is settled by it (protocol, sections 5 and 6; case 16).
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { z } from "zod";
import { type Amounts, accepted, defineOperation, failed } from "../../src/index.ts";
import { openTestLedger } from "../harness/ledger.ts";

/** By the name under which an input asks for it. */
const NO_AMOUNTS: Readonly<Record<string, unknown>> = {
  NaN: { usd_cents: Number.NaN },
  Infinity: { usd_cents: Number.POSITIVE_INFINITY },
  "-1": { usd_cents: -1 },
  "-1n": { usd_cents: -1n },
  "1 as a number": { usd_cents: 1 },
  "2^53 as a number": { usd_cents: 2 ** 53 },
  "2n ** 63n": { usd_cents: 2n ** 63n },
  "the empty text": { usd_cents: "" },
  "1e3": { usd_cents: "1e3" },
  true: { usd_cents: true },
  null: { usd_cents: null },
  undefined: { usd_cents: undefined },
  "no unit": { "US cents": 1n },
  "a Map": new Map([["usd_cents", 1n]]),
  "an array": [1n],
  "a number": 1,
};
const given = (how: string): Amounts => NO_AMOUNTS[how] as Amounts;

const subject = await openTestLedger();
const { ledger } = subject;
const sent: string[] = [];

const input = z.strictObject({ how: z.string() });
const proof = z.strictObject({ receipt: z.string() });
const contract = { cost: () => ({ usd_cents: 10n }), failures: { broken: { effect: "possible" as const } } };
const send = (how: string) => {
  sent.push(how);
  return accepted({ receipt: how });
};
const declared = defineOperation({
  name: "declares",
  version: 1,
  input,
  proof,
  contract: { cost: ({ how }: { how: string }) => given(how) },
  dispatch: ({ target }) => send(target),
});
const lowered = defineOperation({
  name: "lowers",
  version: 1,
  input,
  proof,
  contract,
  prepare: ({ how }) => ({ target: how, payload: {}, cost: given(how) }),
  dispatch: ({ target }) => send(target),
});
const measured = defineOperation({
  name: "measures",
  version: 1,
  input,
  proof,
  contract,
  prepare: ({ how }) => ({ target: how, payload: {} }),
  dispatch: ({ target }) => accepted({ receipt: target }, { cost: given(target) }),
});
const refused = defineOperation({
  name: "is_refused",
  version: 1,
  input,
  proof,
  contract,
  prepare: ({ how }) => ({ target: how, payload: {} }),
  dispatch: ({ target }) => failed({ code: "broken" }, { cost: given(target) }),
});

before(() => subject.work({ operations: [declared, lowered, measured, refused] }));

const sums = async (task: string) => {
  const [row] = await subject.sql<Record<string, string>>(
    `select b.reserved, b.spent, b.overrun from effects_ledger.budget b join effects_ledger.task t using (task_id)
      where t.name = $1`,
    [task],
  );
  return Object.values(row ?? {}).join(" ");
};

for (const operation of [declared, lowered]) {
  const { name } = operation.definition;
  for (const how of Object.keys(NO_AMOUNTS)) {
    test(`a maximum cost that ${name} as ${how} declines the effect, and reserves nothing`, async () => {
      const task = `${name} ${how}`;
      await ledger.openTask(task, { budgets: { usd_cents: 100n } });
      const standing = await subject.ended(await ledger.enqueue(operation, { how }, { task }));
      assert.ok(standing.state === "declined", standing.state);
      assert.deepEqual([standing.reason, standing.code], ["invalid", "preparation_invalid"]);
      assert.equal(await sums(task), "0 0 0");
      assert.deepEqual(sent, []);
    });
  }
}

for (const [operation, state] of [
  [measured, "accepted"],
  [refused, "failed"],
] as const) {
  const { name } = operation.definition;
  for (const how of Object.keys(NO_AMOUNTS)) {
    test(`a measured cost of ${how} measures nothing: what ${name} is ${state}, and spends its maximum`, async () => {
      const task = `${name} ${how}`;
      await ledger.openTask(task, { budgets: { usd_cents: 100n } });
      assert.equal((await subject.ended(await ledger.enqueue(operation, { how }, { task }))).state, state);
      assert.equal(await sums(task), "0 10 0");
    });
  }
}
