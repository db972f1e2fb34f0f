/** Workers with effects of their own do not deny each other anything (protocol, section 5; case 9, scaled). */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { RESERVING } from "../fixtures/reserve.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { startRecipient } from "../harness/recipient.ts";
import { waitFor } from "../harness/wait.ts";

const EFFECTS_EACH = 100;
const FOLDERS = join(import.meta.dirname, "..", "fixtures", "reserving");

const subject = await openTestLedger();
const recipient = await startRecipient(subject);

test("four workers with 100 effects each make 400 requests, and no conflict shows as a denial", async () => {
  const workers = await Promise.all(
    ["1", "2", "3", "4"].map((folder) => subject.child({ tasks: join(FOLDERS, folder) })),
  );
  await subject.ledger.openTask("all", { budgets: { usd_cents: 400n } });
  await subject.sql(
    `select effects.enqueue(operation, json_build_object('url', $1 || operation || '/' || n, 'cents', 1), task => 'all')
       from unnest($2::text[]) as operation, generate_series(1, $3) as n`,
    [recipient.url(""), RESERVING, EFFECTS_EACH],
  );
  const left = "select count(*) from effects_ledger.effect where state <> 'accepted'";
  await waitFor("all are accepted", async () => (await subject.value(left)) === "0", { timeoutMs: 60_000 });
  assert.equal(recipient.receiver.hits, 4 * EFFECTS_EACH);
  assert.equal(new Set(recipient.receiver.requests.map(({ path }) => path)).size, 4 * EFFECTS_EACH);
  assert.equal(await subject.value("select count(*) from audit.events where event = 'denied'"), "0");
  const [sums] = await subject.sql("select reserved, spent, overrun from effects_ledger.budget");
  assert.deepEqual(sums, { reserved: "0", spent: "400", overrun: "0" });
  assert.deepEqual(workers.map((worker) => worker.output()).join(""), "", "no worker had anything to complain about");
});
