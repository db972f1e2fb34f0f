/** A ledger with roles, and effects of a shop's that have ended in a way of their choice: what may be followed, or not. */
import assert from "node:assert/strict";
import { before } from "node:test";
import { absent, accepted, failed, notSent, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { waitFor } from "../harness/wait.ts";
import { openRoleLedger } from "../roles/with-roles.ts";

/** How the first dispatch to somebody ends, by the first word; later ones are accepted. */
const ENDS: Readonly<Record<string, () => object>> = {
  no_effect: () => notSent({ code: "refused_connection" }),
  failed: () => failed({ code: "full" }),
  perhaps: () => failed({ code: "perhaps" }),
  lost: () => unknown("the line went dead"),
  accepted: () => accepted({ receipt: "first" }),
};

/** To be called at the top of a test file. */
export async function openFollowed() {
  const subject = await openRoleLedger();
  const shop = await subject.login("shop", "service");
  const ledger = await shop.open();
  const send = countedOperation("send_note", {
    contract: {
      dispatchTimeoutMs: 5_000,
      failures: { full: { effect: "none" }, perhaps: { effect: "possible" } },
    },
    dispatch: ({ target }) => {
      const first = ENDS[target.split(" ")[0] ?? ""] ?? assert.fail(target);
      return (send.hits(target) === 1 ? first() : accepted({ receipt: "again" })) as ReturnType<
        typeof accepted<{ receipt: string }>
      >;
    },
    reconcile: async () => absent({ found: 0 }),
  });
  const { operation } = send;
  before(async () => {
    await subject.work({ operations: [operation] });
    await subject.sql(
      "select effects.add_source('bank', 'its statements', authoritative => true, submitted_by => session_user::text)",
    );
    await subject.sql("select effects.add_source('rumour', 'a mailbox that nobody checks')");
  });

  let count = 0;
  /** Somebody whom nobody wrote to; it begins with how the first dispatch ends. */
  const somebody = (how: string) => `${how} ${++count}`;
  /** An effect of shop's that has ended, or is unresolved. */
  const ended = async (how: string, options: object = {}) => {
    const to = somebody(how);
    const id = await ledger.enqueue(operation, { to }, options);
    await subject.ended(id);
    return { id, to };
  };
  return {
    ...{ subject, shop, ledger, send, operation, somebody, ended },
    operator: await subject.login("ana", "operator"),
    /** One that was cancelled before it was admitted. */
    async declined(options: object = {}) {
      const notBefore = new Date(Date.now() + 60_000);
      const id = await ledger.enqueue(operation, { to: somebody("accepted") }, { ...options, notBefore });
      assert.equal(await ledger.cancel(id), "declined");
      return id;
    },
    /** Asked about, and nobody could tell. */
    async uncertain() {
      const { id, to } = await ended("lost");
      const reconciliation = await subject.ledger.reconcile({ effect: id, deadlineMs: 20_000 });
      await waitFor("it has run", () =>
        subject.value("select ended from audit.reconciliations where reconciliation_id = $1", [reconciliation]),
      );
      assert.equal((await ledger.observe(id))?.state, "uncertain");
      return { id, to };
    },
    resolve: (id: string, says: string) =>
      subject.value(`select effects.resolve($1, $2, '{"statement": 17}', 'the bank says so')`, [id, says]),
    submit: (id: string, says: string, source = "bank") =>
      subject.value<string>(`select effects.submit_evidence($1, null, null, $2, $3, '{"line": 4}')`, [
        ...[source, id, says],
      ]),
    events: (id: string) =>
      subject.value<string>("select string_agg(event, ' ' order by seq) from audit.events where effect_id = $1", [id]),
  };
}

/** For assert.rejects: refused by this code, in words like these. */
export function refusedAs(code: string, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.equal((error as { code?: string }).code, code, String(error));
    assert.match((error as Error).message, message);
    return true;
  };
}
