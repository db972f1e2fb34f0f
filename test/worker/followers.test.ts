/** Followers that the ledger requests by itself, where an adapter says when and nothing can have happened (protocol, section 6). */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { accepted, failed, notSent, unknown } from "../../src/index.ts";
import { countedOperation } from "../harness/counted-operation.ts";
import { openTestLedger } from "../harness/ledger.ts";
import { type Latch, latch, waitFor } from "../harness/wait.ts";

const subject = await openTestLedger();
const { ledger } = subject;
/** Dispatches to these wait until they are let go. */
const held = new Map<string, Latch>();
function hold(to: string): string {
  held.set(to, latch());
  return to;
}
const busy = { code: "busy" };
/** How an effect ends by what it is to: a report for each dispatch, the last one again and again. */
const ENDS: Readonly<Record<string, readonly (() => ReturnType<typeof accepted<{ receipt: string }>> | object)[]>> = {
  twice: [() => notSent(busy, { againAfterMs: 50 }), () => accepted({ receipt: "second" })],
  refused: [() => failed({ code: "full" }, { againAfterMs: 50 }), () => accepted({ receipt: "second" })],
  possible: [() => failed({ code: "perhaps" }, { againAfterMs: 50 })],
  unlisted: [() => failed({ code: "who_knows" }, { againAfterMs: 50 })],
  silent: [() => ({ ...unknown("the line went dead"), againAfterMs: 50 })],
  still: [() => notSent(busy)],
  always: [() => notSent(busy, { againAfterMs: 0 })],
  late: [() => notSent(busy, { againAfterMs: 3_600_000 })],
  odd: [() => notSent(busy, { againAfterMs: Number.NaN })],
  never: [() => notSent(busy, { againAfterMs: Number.POSITIVE_INFINITY })],
};
const behaviour = {
  contract: {
    dispatchTimeoutMs: 10_000,
    failures: { full: { effect: "none" }, perhaps: { effect: "possible" } },
  } as const,
  dispatch: async ({ target }: { target: string }) => {
    await held.get(target)?.opened;
    const word = target.split(" ")[0] ?? "";
    const ends = ENDS[word] ?? assert.fail(target);
    const end = ends[Math.min(send.hits(target), ends.length) - 1] ?? assert.fail(target);
    return end() as ReturnType<typeof accepted<{ receipt: string }>>;
  },
};
const send = countedOperation("send_note", behaviour);
const { operation } = send;
const bounded = countedOperation("send_bounded", {
  contract: { followMax: 1 },
  dispatch: () => notSent(busy, { againAfterMs: 0 }),
});

before(async () => {
  await subject.work({ operations: [operation, bounded.operation] });
});

/** The states of an effect and of what follows it, in order. */
async function line(id: string): Promise<readonly { effect_id: string; state: string; followed: number }[]> {
  return subject.sql(
    `with recursive line as (
       select e.effect_id, e.state, r.followed, r.requested_at from effects_ledger.effect e join effects_ledger.request r using (effect_id)
        where e.effect_id = $1
       union all
       select e.effect_id, e.state, r.followed, r.requested_at from line l
         join effects_ledger.request r on r.follows = l.effect_id join effects_ledger.effect e on e.effect_id = r.effect_id)
     select effect_id, state, followed from line order by requested_at`,
    [id],
  );
}
const states = async (id: string) => (await line(id)).map(({ state }) => state).join(" ");
/** Waits until the line of an effect stands so. */
const settled = (id: string, wanted: string) => waitFor(`${wanted}: ${id}`, async () => (await states(id)) === wanted);
const whyNot = (id: string) =>
  subject.value<string | null>(
    "select detail ->> 'reason' from audit.events where effect_id = $1 and event = 'not_followed'",
    [id],
  );

for (const to of ["twice", "refused"]) {
  test(`${to}: what provably did not happen is tried again as a new effect, when its adapter said`, async () => {
    const id = await ledger.enqueue(operation, { to }, { name: `order/${to}`, trace: "t1", priority: 3 });
    await settled(id, `${to === "twice" ? "no_effect" : "failed"} accepted`);
    assert.equal(send.hits(to), 2);
    const [, follower] = await line(id);
    const [row] = await subject.sql<Record<string, unknown>>(
      `select f.follows, f.name, f.actor = p.actor and f.task = p.task as same, f.key <> p.key as own_key,
              f.not_before >= p.outcome_at + interval '50 ms' and f.admitted_at >= f.not_before as in_time,
              f.expires_at = p.expires_at as until, r.trace, r.priority, r.name as own_name
         from audit.effects f join audit.effects p on p.effect_id = f.follows join effects_ledger.request r on r.effect_id = f.effect_id
        where f.effect_id = $1`,
      [follower?.effect_id],
    );
    assert.deepEqual(row, {
      ...{ follows: id, name: `order/${to}`, same: true, own_key: true, in_time: true, until: true },
      ...{ trace: "t1", priority: 3, own_name: null },
    });
    const standing = await ledger.observe(id);
    assert.equal(standing?.followedBy, follower?.effect_id);
  });
}

test("the follower is requested in the transaction that records the outcome", async () => {
  const holder = await subject.connect();
  const to = hold("late one");
  const id = await ledger.enqueue(operation, { to });
  await waitFor("it is sent", () => send.hits(to) === 1);
  await holder.query("begin; lock table effects_ledger.request in share mode"); // nothing is requested meanwhile
  held.get(to)?.open();
  await waitFor("the request waits", () =>
    subject.value(
      "select exists (select from pg_locks where relation = 'effects_ledger.request'::regclass and not granted)",
    ),
  );
  assert.equal(await states(id), "admitted");
  await holder.query("commit");
  await settled(id, "no_effect requested");
});

for (const [to, state, code] of [
  ["possible", "failed", undefined],
  ["unlisted", "admitted", "unresolved"],
  ["silent", "admitted", "unresolved"],
  ["still", "no_effect", undefined],
  ["odd", "no_effect", undefined],
] as const) {
  test(`${to}: nothing follows by itself`, async () => {
    const id = await ledger.enqueue(operation, { to });
    await subject.ended(id); // what follows by itself is requested in the same transaction
    assert.equal(await states(id), state, code);
    assert.equal(send.hits(to), 1);
    assert.equal(await whyNot(id), undefined);
  });
}

test("nothing follows that could only be sent after it had expired", async () => {
  for (const to of ["never", "late two"]) {
    const expiresAt = new Date(Date.now() + 60_000);
    const id = await ledger.enqueue(operation, { to }, { expiresAt });
    await settled(id, "no_effect");
    assert.equal(await whyNot(id), "expires");
  }
});

{
  const LIMITS = [
    ["five times where nobody said how often", {}, operation, 6],
    ["as often as the request said", { followMax: 2 }, operation, 3],
    ["never where the request said so", { followMax: 0 }, operation, 1],
    ["as often as the contract said", {}, bounded.operation, 2],
    ["as the request said, before the contract", { followMax: 2 }, bounded.operation, 3],
  ] as const;
  for (const [place, [claim, options, asked, times]] of LIMITS.entries()) {
    test(`it follows by itself ${claim}`, async () => {
      const to = `always ${place}`;
      const id = await ledger.enqueue(asked, { to }, options);
      await settled(id, Array(times).fill("no_effect").join(" "));
      assert.equal((asked === operation ? send : bounded).hits(to), times);
      assert.equal(await whyNot((await line(id)).at(-1)?.effect_id ?? ""), "follow_max");
    });
  }
}

test("a protected operation is not tried again by itself", async () => {
  const guarded = countedOperation("send_guarded", { dispatch: () => notSent(busy, { againAfterMs: 0 }) });
  await subject.work({ operations: [guarded.operation] });
  await subject.sql("select effects.allow_operation('send_guarded', 1, 'reviewed')");
  await subject.sql("select effects.add_policy('guarded', 'send_guarded', 1, 'what may be', task => 'default')");
  await subject.sql("select effects.protect_operation('send_guarded', 'it matters')");
  const id = await ledger.enqueue(guarded.operation, { to: "somebody" });
  await settled(id, "no_effect");
  assert.equal(await whyNot(id), "follow_max");
  const allowed = await ledger.enqueue(guarded.operation, { to: "somebody else" }, { followMax: 1 });
  await settled(allowed, "no_effect no_effect");
});

test("a follower has an admission of its own: a budget that has gone meanwhile holds it up", async () => {
  await ledger.openTask("small", { budgets: { usd_cents: 10n } });
  const to = hold("twice with a budget");
  const first = await ledger.enqueue(operation, { to, cents: 8 }, { task: "small" });
  await waitFor("it is sent", () => send.hits(to) === 1);
  await subject.sql("select effects.set_budget('small', 'usd_cents', '3', 'less')");
  held.get(to)?.open();
  await settled(first, "no_effect declined");
  const [, follower] = await line(first);
  const standing = await ledger.observe(follower?.effect_id ?? "");
  assert.ok(standing?.state === "declined");
  assert.equal(standing.code, "budget_exceeded");
  assert.equal(send.hits(to), 1);
});

test("a cancellation during the dispatch keeps it from being tried again", async () => {
  const wait = latch();
  const heedless = countedOperation("send_heedless", {
    dispatch: async () => {
      await wait.opened;
      return notSent(busy, { againAfterMs: 0 });
    },
  });
  await subject.work({ operations: [heedless.operation] });
  const id = await ledger.enqueue(heedless.operation, { to: "somebody" });
  await waitFor("it is sent", () => heedless.hits("somebody") === 1);
  assert.equal(await ledger.cancel(id), "cancel_requested");
  wait.open();
  await settled(id, "no_effect");
  assert.equal(await whyNot(id), "cancelled");
});

test("cancelling what has ended declines what tries it again", async () => {
  const id = await ledger.enqueue(operation, { to: "late three" });
  await settled(id, "no_effect requested");
  assert.equal(await ledger.cancel(id), "declined");
  assert.equal(await states(id), "no_effect declined");
  assert.equal(send.hits("late three"), 1);
  assert.equal((await ledger.observe(id))?.followedBy, undefined);
});
