/**
 * One effect whose write the database refuses, in the middle of a batch: the transaction's COMMIT answers ROLLBACK, nobody
 * takes it for success, and its neighbours are admitted and recorded without it (protocol, section 5).
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { together } from "../harness/together.ts";
import { latch, waitFor } from "../harness/wait.ts";

const WINDOW_MS = 4_000;

const subject = await openTestLedger();
const answer = latch();
const counted = countedOperation("send_note", {
  contract: { dispatchTimeoutMs: WINDOW_MS },
  dispatch: async ({ target }) => {
    if (target.startsWith("reports")) await answer.opened;
    return { report: "accepted", proof: { receipt: target } };
  },
});
const { ask, hits, histories, sums } = together(subject, counted);

before(async () => {
  await subject.sql("create table poisoned (target text)");
  await subject.sql(
    `create function refuse_poisoned() returns trigger language plpgsql security definer as $$
       begin
         if exists (select from public.poisoned p join effects_payload.input i on i.given::json ->> 'to' = p.target
                     where i.effect_id = new.effect_id) then
           raise exception 'refused by the test';
         end if;
         return null;
       end $$`,
  );
  for (const table of ["permit", "outcome"]) {
    await subject.sql(
      `create trigger poison after insert on effects_ledger.${table} for each row execute function refuse_poisoned()`,
    );
  }
  await subject.work({ operations: [counted.operation] });
});

test("of admissions taken together only the one that is refused is not admitted, and it is once that has passed", async () => {
  await subject.sql("insert into poisoned values ('admissions/2')");
  const ids = await ask("admissions", 5);
  const refused = ids[2] ?? "";
  for (const id of ids) if (id !== refused) assert.equal((await subject.ended(id)).state, "accepted");
  await waitFor("its job has failed", () =>
    subject.value("select last_error from effects_queue.jobs where key = $1", [refused]),
  );
  const error = await subject.value<string>("select last_error from effects_queue.jobs where key = $1", [refused]);
  assert.match(error, /refused by the test/);
  assert.deepEqual([await sums("admissions"), hits("admissions")], ["0 28 0", 4]);
  assert.equal((await subject.ledger.observe(refused))?.state, "prepared");
  await subject.sql("delete from poisoned");
  assert.equal((await subject.ended(refused)).state, "accepted");
  assert.deepEqual(await histories(ids), ["admitted accepted"]);
  assert.deepEqual([await sums("admissions"), hits("admissions")], ["0 35 0", 5]);
});

test("of reports taken together only the one that is refused is not recorded, and it is never sent again", async () => {
  const ids = await ask("reports", 5);
  await waitFor("all have arrived", () => hits("reports") === 5);
  await subject.sql("insert into poisoned values ('reports/2')");
  answer.open();
  const refused = ids[2] ?? "";
  for (const id of ids) if (id !== refused) assert.equal((await subject.ended(id)).state, "accepted");
  assert.equal(await sums("reports"), "7 28 0");
  const standing = await subject.ended(refused);
  assert.ok(standing.state === "admitted" && standing.unresolved, standing.state);
  await subject.sql("delete from poisoned");
  await subject.idle();
  assert.deepEqual([await sums("reports"), hits("reports")], ["7 28 0", 5]);
});
