/** A conflict at COMMIT is tried again, and is never a denial, a second send or a second outcome (protocol, section 5; case 8). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";

const subject = await openTestLedger();
const { ledger } = subject;
const { operation, hits } = countedOperation("send_note");

/** From now on the first COMMIT that wrote to this table fails as a serialisation failure, the second as a deadlock. */
const failTwice = (table: string) =>
  subject.sql(
    `create sequence commits_${table};
     create function fail_${table}() returns trigger language plpgsql as $$
       declare
         place constant bigint := nextval('commits_${table}'); -- survives the rollback
       begin
         if place <= 2 then
           raise exception 'refused at COMMIT' using errcode = case place when 1 then '40001' else '40P01' end;
         end if;
         return null;
       end $$;
     create constraint trigger fail after insert on effects_ledger.${table} deferrable initially deferred
       for each row execute function fail_${table}()`,
  );
const events = async (id: string) =>
  (await subject.sql<{ event: string }>("select event from audit.events where effect_id = $1 order by seq", [id]))
    .map(({ event }) => event)
    .join(" ");

before(() => subject.work({ operations: [operation] }));

for (const table of ["permit", "outcome"]) {
  test(`40001 at COMMIT, then 40P01, then success of what writes the ${table}: one admission, one send, one outcome`, async () => {
    await ledger.openTask(table, { budgets: { usd_cents: 10n } });
    await failTwice(table);
    const id = await ledger.enqueue(operation, { to: table, cents: 10 }, { task: table });
    assert.equal((await subject.ended(id)).state, "accepted");
    assert.equal(await subject.value(`select last_value from commits_${table}`), "3");
    assert.equal(await events(id), "requested prepared admitted accepted");
    assert.equal(hits(table), 1);
    const [sums] = await subject.sql(
      "select b.reserved, b.spent from effects_ledger.budget b join effects_ledger.task t using (task_id) where t.name = $1",
      [table],
    );
    assert.deepEqual(sums, { reserved: "0", spent: "10" });
    await subject.idle();
  });
}
