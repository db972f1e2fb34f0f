/** One effect in each state of the design, made by a real worker, for tests of what the database refuses afterwards. */
import type { State } from "../../src/core/state.ts";
import { absent, accepted, failed, fenced, notSent, unknown } from "../../src/index.ts";
import { countedOperation } from "./counted-operation.ts";
import type { TestLedger } from "./ledger.ts";
import { waitFor } from "./wait.ts";

/** The task that every effect here is requested under; each may cost 10 usd_cents of its 1000. */
export const GALLERY_TASK = "gallery";

/** Makes the effects and stops the worker again. Returns their ids. */
export async function openGallery(subject: TestLedger): Promise<Readonly<Record<State, string>>> {
  const { ledger } = subject;
  const { operation } = countedOperation("send_note", {
    contract: {
      failures: { refused: { effect: "none" } },
      absence: { fence: { retentionMs: "kept" } },
    },
    dispatch: ({ target }) => {
      if (target === "accepted") return accepted({ receipt: "r1" }, { cost: { usd_cents: 7n } });
      if (target === "failed") return failed({ code: "refused" });
      return target === "no_effect" ? notSent({ reason: "no connection" }) : unknown("the line went dead");
    },
    reconcile: async () => absent({ matches: 0 }),
    fence: async () => fenced({ mark: "void" }),
  });
  const { operation: paused } = countedOperation("send_later");
  const worker = await subject.work({ operations: [operation, paused] });
  await subject.sql("select effects.pause('operation', 'send_later', 'a test')");
  await ledger.openTask(GALLERY_TASK, { budgets: { usd_cents: 1_000n } });
  const request = (to: string, notBefore?: Date) =>
    ledger.enqueue(
      to === "prepared" ? paused : operation,
      { to, cents: 10 },
      { task: GALLERY_TASK, name: to, ...(notBefore && { notBefore }) },
    );
  const ids = {
    requested: await request("requested", new Date(Date.now() + 3_600_000)),
    prepared: await request("prepared"),
    declined: await subject.value<string>("select effects.enqueue('send_note', '{}', task => $1, name => 'declined')", [
      GALLERY_TASK,
    ]),
    admitted: await request("admitted"),
    accepted: await request("accepted"),
    failed: await request("failed"),
    no_effect: await request("no_effect"),
    uncertain: await request("uncertain"),
  };
  await subject.ended(ids.uncertain);
  await ledger.reconcile({ effect: ids.uncertain, deadlineMs: 10_000 });
  for (const [state, id] of Object.entries(ids)) {
    await waitFor(`an effect is ${state}`, async () => (await ledger.observe(id))?.state === state);
  }
  await waitFor("the paused effect waits", async () => {
    const standing = await ledger.observe(ids.prepared);
    return standing?.state === "prepared" && standing.waitingFor === "paused";
  });
  await worker.stop();
  return ids;
}
