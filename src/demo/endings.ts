/**
 * What the demo has started and must end, the last first. Every ending is tried, whatever the ones before it did.
 */
import { describeThrown } from "../core/text.ts";

export class Endings {
  readonly #steps: { readonly what: string; readonly end: () => Promise<unknown> }[] = [];

  /** To be called as soon as there is something to end. */
  add(what: string, end: () => Promise<unknown>): void {
    this.#steps.push({ what, end });
  }

  /** Ends everything and says what could not be ended. Never throws. */
  async run(): Promise<readonly string[]> {
    const faults: string[] = [];
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step.end();
      } catch (error) {
        faults.push(`${step.what} did not end: ${describeThrown(error)}`);
      }
    }
    return faults;
  }
}
