/**
 * So many at once, and the others in the order they came. A pool gives up on whoever waits ten seconds for a connection;
 * here a burst only waits. It never decides who matters more.
 */
export class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  /** @param count from 1 */
  constructor(count: number) {
    this.#free = count;
  }

  /** Does the work once there is room for it. */
  async take<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      // Whoever waits longest gets this one; it is not free in between.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}
