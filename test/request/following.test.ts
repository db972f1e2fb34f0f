/** What may be followed, and by whom: never what may have happened (protocol, section 3). */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { openFollowed, refusedAs } from "./followed-effects.ts";

const {
  subject,
  shop,
  ledger,
  send,
  operation,
  somebody,
  ended,
  operator,
  declined,
  uncertain,
  resolve,
  submit,
  events,
} = await openFollowed();
const operating = await operator.open();

describe("what did not happen is followed", () => {
  const ENDED: Readonly<Record<string, () => Promise<string>>> = {
    "without effect": async () => (await ended("no_effect")).id,
    failed: async () => (await ended("failed")).id,
    "failed, though it may have cost something": async () => (await ended("perhaps")).id,
    "resolved as without effect": async () => {
      const { id } = await uncertain();
      await resolve(id, "no_effect");
      return id;
    },
    "resolved as failed": async () => {
      const { id } = await uncertain();
      await resolve(id, "failed");
      return id;
    },
    "resolved as without effect after its risk was accepted": async () => {
      const { id } = await uncertain();
      await subject.value("select effects.accept_risk($1, 'too old to ask')", [id]);
      await resolve(id, "no_effect");
      return id;
    },
  };
  for (const [how, end] of Object.entries(ENDED)) {
    test(how, async () => {
      const id = await end();
      const follower = await ledger.enqueue(operation, { to: somebody("accepted") }, { follows: id });
      assert.equal((await subject.ended(follower)).state, "accepted");
      assert.equal((await ledger.observe(id))?.followedBy, follower);
      assert.match(await events(id), / followed$/);
      const [row] = await subject.sql("select follows, followed_by from audit.effects where effect_id = $1", [
        follower,
      ]);
      assert.deepEqual(row, { follows: id, followed_by: null });
    });
  }

  test("declined: by effects.follow, with the same operation, input, task and actor, and its own key and expiry", async () => {
    const id = await declined({ name: "order/1", trace: "t1" });
    const follower = await ledger.follow(id);
    assert.equal((await subject.ended(follower)).state, "accepted");
    const [row] = await subject.sql<Record<string, unknown>>(
      `select f.operation = p.operation and f.task = p.task and f.actor = p.actor and g.given::text = h.given::text as same,
              f.key <> p.key and f.expires_at > p.expires_at as own, f.name, r.name as own_name, r.trace, r.followed
         from audit.effects f join audit.effects p on p.effect_id = f.follows
         join effects_ledger.request r on r.effect_id = f.effect_id
         join effects_payload.input g on g.effect_id = f.effect_id join effects_payload.input h on h.effect_id = p.effect_id
        where f.effect_id = $1`,
      [follower],
    );
    assert.deepEqual(row, { same: true, own: true, name: "order/1", own_name: null, trace: "t1", followed: 0 });
  });
});

describe("what may have happened is not", () => {
  const OPEN: Readonly<Record<string, readonly [end: () => Promise<string>, message: RegExp]>> = {
    accepted: [async () => (await ended("accepted")).id, /is accepted$/],
    unresolved: [async () => (await ended("lost")).id, /is admitted, and nobody knows/],
    uncertain: [async () => (await uncertain()).id, /is uncertain, and nobody knows/],
    "resolved as accepted": [
      async () => {
        const { id } = await uncertain();
        await resolve(id, "accepted");
        return id;
      },
      /evidence that it happened$/,
    ],
    "without effect, and a source says that it happened": [
      async () => {
        const { id } = await ended("no_effect");
        assert.equal(await submit(id, "accepted"), "contradicts");
        return id;
      },
      /evidence that it happened$/,
    ],
    "failed, and the evidence disagrees": [
      async () => {
        const { id } = await ended("failed");
        assert.equal(await submit(id, "no_effect", "rumour"), "contradicts");
        return id;
      },
      /evidence disagrees$/,
    ],
    "still requested": [
      async () => ledger.enqueue(operation, { to: somebody("accepted") }, { notBefore: new Date(Date.now() + 60_000) }),
      /is requested$/,
    ],
  };
  for (const [how, [end, message]] of Object.entries(OPEN)) {
    test(how, async () => {
      const id = await end();
      const before = await events(id);
      const requests = await subject.value("select count(*) from effects_ledger.request");
      const input = { to: somebody("accepted") };
      await assert.rejects(ledger.enqueue(operation, input, { follows: id }), refusedAs("PE107", message));
      await assert.rejects(ledger.follow(id), refusedAs("PE107", message));
      await assert.rejects(operating.follow(id, { reason: "he insists" }), refusedAs("PE107", message));
      assert.equal(await subject.value("select count(*) from effects_ledger.request"), requests);
      assert.equal(await events(id), before);
    });
  }

  test("evidence that a resolution knew of does not count again", async () => {
    const { id } = await uncertain();
    assert.equal(await submit(id, "accepted", "rumour"), "kept");
    await resolve(id, "no_effect");
    assert.equal((await subject.ended(await ledger.follow(id))).state, "accepted");
  });
});

describe("after an accepted risk", () => {
  async function risked() {
    const { id, to } = await uncertain();
    await subject.value("select effects.accept_risk($1, 'too old to ask')", [id]);
    return { id, to };
  }

  test("only an operator follows, with a reason, and the record names both", async () => {
    const { id, to } = await risked();
    const only = refusedAs("PE107", /only an operator follows it, with a reason$/);
    await assert.rejects(ledger.follow(id, { reason: "I want it" }), only);
    await assert.rejects(ledger.enqueue(operation, { to }, { follows: id }), only);
    await assert.rejects(operating.follow(id), only);
    const follower = await operating.follow(id, { reason: "the customer never had it" });
    assert.equal((await subject.ended(follower)).state, "accepted");
    assert.equal(send.hits(to), 2);
    const [row] = await subject.sql<Record<string, unknown>>(
      `select e.actor, e.requested_by, e.follow_reason, v.by_role, v.detail ->> 'reason' as reason, e.spoken_by
         from audit.effects e join audit.events v using (effect_id) where e.effect_id = $1 and v.seq = 1`,
      [follower],
    );
    const reason = "the customer never had it";
    assert.deepEqual(row, {
      ...{ actor: shop.name, requested_by: operator.name, by_role: operator.name },
      ...{ follow_reason: reason, reason, spoken_by: null },
    });
  });

  test("evidence that comes afterwards and says that it happened stops an operator too", async () => {
    const { id } = await risked();
    assert.equal(await submit(id, "accepted", "rumour"), "kept");
    await assert.rejects(operating.follow(id, { reason: "again" }), refusedAs("PE107", /evidence that it happened$/));
  });
});
