/**
 * A combiner: the one place in a process where what waits for the same step is taken together, so that many effects
 * share a transaction. While one batch is under way the next one gathers. One effect never holds up its neighbours.
 */

/** Batches larger than this gained nothing when it was measured. */
const BATCH_MAX = 200;

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Takes turns: of the batches that share one, a single one runs at a time, in the order they came. */
export class Turn {
  #last: Promise<unknown> = Promise.resolve();

  take<Result>(run: () => Promise<Result>): Promise<Result> {
    const next = this.#last.then(run);
    this.#last = next.catch(() => {}); // whoever took this turn has the error; the next one only waits for its end
    return next;
  }
}

/** Gathers items for a step that takes many at once. */
export class Combiner<Item, Result> {
  readonly #run: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly #turn: Turn;
  readonly #fails: (error: unknown) => boolean;
  readonly #part: (item: Item) => unknown;
  #waiting: Waiting<Item, Result>[] = [];
  #scheduled = false;

  /**
   * @param run takes a batch and gives a result for each item, in the same order
   * @param turn shared by the combiners that must not run at once
   * @param fails true for an error that is the whole batch's: it is not tried one by one
   * @param part items of different parts share no batch; the oldest item's part goes next
   */
  constructor(
    run: (items: readonly Item[]) => Promise<readonly Result[]>,
    turn: Turn = new Turn(),
    fails: (error: unknown) => boolean = () => false,
    part: (item: Item) => unknown = () => null,
  ) {
    this.#run = run;
    this.#turn = turn;
    this.#fails = fails;
    this.#part = part;
  }

  /** Waits with what else waits, and gives this item's result. */
  submit(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    void this.#turn.take(async () => {
      this.#scheduled = false;
      const batch = this.#takeBatch();
      if (this.#waiting.length > 0) this.#schedule();
      await this.#settle(batch);
    });
  }

  #takeBatch(): readonly Waiting<Item, Result>[] {
    const [oldest] = this.#waiting;
    if (!oldest) return [];
    const part = this.#part(oldest.item);
    const batch: Waiting<Item, Result>[] = [];
    this.#waiting = this.#waiting.filter((waiting) => {
      if (batch.length >= BATCH_MAX || this.#part(waiting.item) !== part) return true;
      batch.push(waiting);
      return false;
    });
    return batch;
  }

  async #settle(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#run(batch.map(({ item }) => item));
      if (results.length !== batch.length)
        throw new Error(`a step gave ${results.length} results for ${batch.length} items`);
      for (const [place, waiting] of batch.entries()) waiting.resolve(results[place] as Result);
    } catch (error) {
      const single = batch[0];
      if (batch.length === 1 || this.#fails(error)) {
        for (const waiting of batch) waiting.reject(error);
      } else if (single) {
        for (const waiting of batch) await this.#settle([waiting]);
      }
    }
  }
}
