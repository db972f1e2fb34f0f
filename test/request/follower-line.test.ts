/** An effect has one follower at most, in whatever line of them it stands; whose it is, and what it goes by (protocol, section 3). */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { openFollowed, refusedAs } from "./followed-effects.ts";

const { subject, shop, ledger, operation, somebody, ended, operator, events } = await openFollowed();
const operating = await operator.open();
const another = await (await subject.login("another", "service")).open();

describe("one follower", () => {
  test("a second one is refused, and told which one is there", async () => {
    const { id } = await ended("no_effect");
    const follower = await ledger.enqueue(operation, { to: somebody("accepted") }, { follows: id });
    await subject.ended(follower);
    const already = refusedAs("PE126", new RegExp(`is followed by ${follower}, which is accepted$`));
    await assert.rejects(ledger.enqueue(operation, { to: somebody("accepted") }, { follows: id }), already);
    await assert.rejects(ledger.follow(id), already);
  });

  test("while it is being tried again, effects.follow says so by its id, to whoever may ask", async () => {
    const { id } = await ended("no_effect");
    const notBefore = new Date(Date.now() + 60_000);
    const follower = await ledger.enqueue(operation, { to: somebody("accepted") }, { follows: id, notBefore });
    assert.equal(await ledger.follow(id), follower);
    assert.equal(await operating.follow(id), follower);
    assert.equal((await events(id)).match(/followed/g)?.length, 1);
  });

  test("what was declined leaves its place, and a line of them never branches", async () => {
    const { id } = await ended("no_effect");
    const notBefore = new Date(Date.now() + 60_000);
    const first = await ledger.enqueue(operation, { to: somebody("accepted") }, { follows: id, notBefore });
    assert.equal(await ledger.cancel(first), "declined");
    assert.equal((await ledger.observe(id))?.followedBy, undefined);
    const second = await ledger.enqueue(operation, { to: somebody("accepted") }, { follows: first, notBefore });
    // It follows the declined one, and so takes the place behind what that one followed.
    assert.equal(await ledger.follow(id), second);
    const input = { to: somebody("accepted") };
    await assert.rejects(ledger.enqueue(operation, input, { follows: id }), refusedAs("PE126", /already/));
    assert.equal(await ledger.cancel(id), "declined", "of a line the last one is meant");
    const third = await ledger.enqueue(operation, input, { follows: id });
    await assert.rejects(ledger.enqueue(operation, input, { follows: second }), refusedAs("PE126", /already/));
    assert.equal((await subject.ended(third)).state, "accepted");
  });

  test("the database holds it, whoever writes", async () => {
    const { id } = await ended("no_effect");
    const follower = await ledger.follow(id);
    await subject.ended(follower);
    await assert.rejects(
      subject.sql("insert into effects_ledger.follower (predecessor, effect_id) values ($1, $2)", [id, id]),
      { code: "23505" },
    );
    await assert.rejects(
      subject.sql("update effects_ledger.request set follows = null where effect_id = $1", [follower]),
      { code: "42501" },
    );
  });

  test("of many requests at once, each follows what nobody else does", async () => {
    const { id } = await ended("no_effect");
    const requests = [
      { input: { to: "accepted many" }, follows: id },
      { input: { to: "accepted more" }, follows: id },
    ];
    await assert.rejects(ledger.enqueueMany(operation, requests), refusedAs("PE126", /already/));
    const [made] = await ledger.enqueueMany(operation, requests.slice(0, 1));
    assert.equal((await subject.ended(made?.effectId ?? "")).state, "accepted");
  });
});

describe("names", () => {
  test("a request by name is compared with what it follows", async () => {
    const { id } = await ended("no_effect");
    const input = { to: somebody("accepted") };
    const follower = await ledger.enqueue(operation, input, { name: "order/2/again", follows: id });
    assert.equal(await ledger.enqueue(operation, input, { name: "order/2/again", follows: id }), follower);
    for (const follows of [undefined, randomUUID()]) {
      const options = { name: "order/2/again", ...(follows && { follows }) };
      await assert.rejects(ledger.enqueue(operation, input, options), refusedAs("PE104", /; follows differs$/));
    }
  });

  test("a follower goes by the name of what it follows; find finds what was requested by it", async () => {
    const { id } = await ended("no_effect", { name: "order/3" });
    const follower = await ledger.follow(id);
    await subject.ended(follower);
    const found = await ledger.find({ name: "order/3" });
    assert.equal(found?.effectId, id);
    assert.equal(found?.standing.followedBy, follower);
    const names = await subject.sql("select effect_id from audit.effects where name = 'order/3' order by requested_at");
    assert.deepEqual(names, [{ effect_id: id }, { effect_id: follower }]);
    const own = await ledger
      .enqueue(operation, { to: somebody("accepted") }, { name: "order/3" })
      .catch((error) => error);
    refusedAs("PE104", /name_conflict/)(own);
  });
});

describe("whose", () => {
  test("another actor's effect is none, and another task's is refused", async () => {
    const { id } = await ended("no_effect");
    const input = { to: somebody("accepted") };
    await assert.rejects(another.follow(id), refusedAs("PE109", /no effect .* of this actor's/));
    await assert.rejects(another.enqueue(operation, input, { follows: id }), refusedAs("PE109", /no effect/));
    await assert.rejects(ledger.enqueue(operation, input, { follows: randomUUID() }), refusedAs("PE109", /no effect/));
    await ledger.openTask("elsewhere");
    await assert.rejects(
      ledger.enqueue(operation, input, { follows: id, task: "elsewhere" }),
      refusedAs("PE107", /another task's$/),
    );
  });

  test("an operator follows for anybody, in the actor's name and by the right it had", async () => {
    await subject.sql("select effects.add_actor('till', 'a till', spoken_by => $1)", [shop.name]);
    const to = somebody("no_effect");
    const id = await ledger.enqueue(operation, { to }, { actor: "till" });
    await subject.ended(id);
    const follower = await operating.follow(id);
    assert.equal((await subject.ended(follower)).state, "accepted");
    const [row] = await subject.sql("select actor, spoken_by, requested_by from audit.effects where effect_id = $1", [
      follower,
    ]);
    assert.deepEqual(row, { actor: "till", spoken_by: shop.name, requested_by: operator.name });
    const later = await ledger.enqueue(operation, { to: somebody("no_effect") }, { actor: "till" });
    await subject.ended(later);
    await subject.sql("select effects.revoke_speaker('till', $1, 'gone')", [shop.name]);
    const standing = await subject.ended(await operating.follow(later));
    assert.ok(standing.state === "declined");
    assert.equal(standing.code, "actor_revoked");
  });

  test("an ended task takes no follower", async () => {
    await ledger.openTask("ending");
    const { id } = await ended("no_effect", { task: "ending" });
    await ledger.endTask("ending");
    for (const who of [ledger, operating]) await assert.rejects(who.follow(id), refusedAs("PE108", /has ended$/));
  });
});

test("a bound on how often it follows by itself is one", async () => {
  for (const followMax of [-1, 101]) {
    const asked = ledger.enqueue(operation, { to: "accepted" }, { followMax });
    await assert.rejects(asked, refusedAs("22023", /^follow_max is outside 0 to 100$/));
  }
});
