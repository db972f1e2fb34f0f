/**
 * Holding back a recipient's answers until a caller lets them go: the recipient has acted, and nobody else knows yet.
 * It replaces sleeping: `reached` is the moment, `release` the end of it.
 */
import { LedgerError } from "../../core/error.ts";

export interface AnswerHold {
  /** Resolves when the recipient has acted and its answer is held. Rejects (`recipient_stopped`) if that never comes. */
  readonly reached: Promise<void>;
  /** Lets all held answers go and holds no further ones. Calling it again changes nothing. */
  release(): void;
}

/** The one place at which a recipient's answers wait. */
export class HeldAnswers {
  #hold: { reached: PromiseWithResolvers<void>; released: PromiseWithResolvers<void> } | null = null;

  /**
   * From now on every answer waits, until `release`.
   * @throws LedgerError `answers_already_held`
   */
  hold(): AnswerHold {
    if (this.#hold !== null) {
      throw new LedgerError("answers_already_held", "the answers are held already", { hint: "release the first hold" });
    }
    const hold = { reached: Promise.withResolvers<void>(), released: Promise.withResolvers<void>() };
    // A hold that nobody waits for may be abandoned by `stop`: that is not an unhandled error.
    hold.reached.promise.catch(() => undefined);
    this.#hold = hold;
    return {
      reached: hold.reached.promise,
      release: () => {
        hold.released.resolve();
        if (this.#hold === hold) this.#hold = null;
      },
    };
  }

  /** Called by the recipient once it has acted: resolves when its answer may leave. */
  async wait(): Promise<void> {
    this.#hold?.reached.resolve();
    await this.#hold?.released.promise;
  }

  /** The recipient stops: whoever waits for `reached` is told. */
  abandon(): void {
    this.#hold?.reached.reject(
      new LedgerError("recipient_stopped", "the recipient stopped before it held an answer", {
        hint: "wait for `reached` before stopping it",
      }),
    );
  }
}
