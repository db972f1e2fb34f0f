import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Combiner, Turn } from "../../src/worker/combiner.ts";

/** A combiner whose batches are ended by the test; its results are the items in upper case. */
function heldCombiner(turn?: Turn) {
  const batches: { readonly items: readonly string[]; readonly end: (error?: Error) => void }[] = [];
  const run = (items: readonly string[]) =>
    new Promise<readonly string[]>((resolve, reject) => {
      const end = (error?: Error) => (error ? reject(error) : resolve(items.map((item) => item.toUpperCase())));
      batches.push({ items, end });
    });
  return { combiner: new Combiner(run, turn), batches };
}
/** Lets everything that is ready run. */
const settled = () => new Promise(setImmediate);

describe("batches", () => {
  test("what is submitted in one turn is one batch, and each gets its own result", async () => {
    const { combiner, batches } = heldCombiner();
    const results = Promise.all(["c", "a", "b"].map((item) => combiner.submit(item)));
    await settled();
    assert.deepEqual(
      batches.map(({ items }) => items),
      [["c", "a", "b"]],
    );
    batches[0]?.end();
    assert.deepEqual(await results, ["C", "A", "B"]);
  });

  test("while one batch is under way the next one gathers, and is taken when it has ended", async () => {
    const { combiner, batches } = heldCombiner();
    const first = combiner.submit("a");
    await settled();
    const second = [combiner.submit("b"), combiner.submit("c")];
    await settled();
    const third = combiner.submit("d");
    await settled();
    assert.deepEqual(
      batches.map(({ items }) => items),
      [["a"]],
    );
    batches[0]?.end();
    assert.equal(await first, "A");
    await settled();
    assert.deepEqual(
      batches.map(({ items }) => items),
      [["a"], ["b", "c", "d"]],
    );
    batches[1]?.end();
    assert.deepEqual(await Promise.all([...second, third]), ["B", "C", "D"]);
  });

  test("more than a batch holds go into the next ones, in order and one at a time", async () => {
    const sizes: number[] = [];
    let running = 0;
    const combiner = new Combiner(async (items: readonly number[]) => {
      assert.equal(++running, 1);
      sizes.push(items.length);
      await settled();
      running--;
      return items.map((item) => item * 2);
    });
    const items = Array.from({ length: 450 }, (_, place) => place);
    assert.deepEqual(
      await Promise.all(items.map((item) => combiner.submit(item))),
      items.map((item) => item * 2),
    );
    assert.deepEqual(sizes, [200, 200, 50]);
  });
});

describe("a batch that fails", () => {
  const refuse = (bad: string, tried: string[][]) => async (items: readonly string[]) => {
    tried.push([...items]);
    if (items.includes(bad)) throw new Error(`${bad} is refused`);
    return items.map((item) => item.toUpperCase());
  };

  test("is tried one by one, so that only the failing item fails", async () => {
    const tried: string[][] = [];
    const combiner = new Combiner(refuse("b", tried));
    const [a, b, c] = await Promise.allSettled(["a", "b", "c"].map((item) => combiner.submit(item)));
    assert.deepEqual(
      [a, c],
      [
        { status: "fulfilled", value: "A" },
        { status: "fulfilled", value: "C" },
      ],
    );
    assert.ok(b?.status === "rejected" && b.reason.message === "b is refused");
    assert.deepEqual(tried, [["a", "b", "c"], ["a"], ["b"], ["c"]]);
  });

  test("with an error that is the whole batch's fails as a whole, and is not tried again", async () => {
    const tried: string[][] = [];
    const combiner = new Combiner(refuse("b", tried), undefined, () => true);
    const ends = await Promise.allSettled(["a", "b"].map((item) => combiner.submit(item)));
    assert.deepEqual(
      ends.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    assert.deepEqual(tried, [["a", "b"]]);
  });

  test("holds up nobody who comes after it, also where it threw at once", async () => {
    const combiner = new Combiner((items: readonly string[]) => {
      if (items.includes("b")) throw new Error("at once");
      return Promise.resolve(items);
    });
    await assert.rejects(combiner.submit("b"), /at once/);
    assert.equal(await combiner.submit("c"), "c");
  });

  test("that gives fewer results than items gives nobody a result that is not there", async () => {
    const combiner = new Combiner(async (items: readonly string[]) => items.slice(1));
    const ends = await Promise.allSettled(["a", "b"].map((item) => combiner.submit(item)));
    assert.deepEqual(
      ends.map(({ status }) => status),
      ["rejected", "rejected"],
    );
  });
});

describe("a turn", () => {
  test("is taken by one of the combiners that share it at a time, in the order they came", async () => {
    const turn = new Turn();
    const [admission, settlement] = [heldCombiner(turn), heldCombiner(turn)];
    const ends = [admission.combiner.submit("a"), settlement.combiner.submit("s"), admission.combiner.submit("b")];
    await settled();
    assert.deepEqual([admission.batches.length, settlement.batches.length], [1, 0]);
    admission.batches[0]?.end();
    await settled();
    assert.deepEqual([admission.batches.length, settlement.batches.length], [1, 1]);
    settlement.batches[0]?.end();
    assert.deepEqual(await Promise.all(ends), ["A", "S", "B"]);
  });

  test("goes on after who failed in it", async () => {
    const turn = new Turn();
    const failing = turn.take(() => Promise.reject(new Error("failed")));
    const next = turn.take(async () => "next");
    await assert.rejects(failing, /failed/);
    assert.equal(await next, "next");
  });

  test("is not shared by combiners that were not given one", async () => {
    const [one, other] = [heldCombiner(), heldCombiner()];
    const ends = [one.combiner.submit("a"), other.combiner.submit("b")];
    await settled();
    assert.deepEqual([one.batches.length, other.batches.length], [1, 1]);
    for (const { batches } of [one, other]) batches[0]?.end();
    assert.deepEqual(await Promise.all(ends), ["A", "B"]);
  });
});
