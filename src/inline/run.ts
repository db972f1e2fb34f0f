/**
 * A run as its host holds it, and how one process shares it: concurrent calls for the same effect are one call (ADR 0200).
 */
import type { InlineEnd } from "../core/inline.ts";
import { wordConnectionError } from "../store/connection.ts";
import { type InlineAsked, type InlineCaller, inlineCaller } from "../store/inline.ts";
import { checkInline, type InlineFunctions, type InlineOptions, inlineEffect } from "./effect.ts";
import type { InlineHost } from "./host.ts";

export interface RunOptions {
  /** The task under whose authority its effects are admitted. Default: `default`. */
  readonly task?: string;
  /** A registered actor that this login speaks for. Default: the role in force. */
  readonly actor?: string;
  /** The invocation whose effects they are: `ledger.startInvocation`. */
  readonly invocation?: string;
}

/** What is under way in this process, whichever ledger object it was called by. */
const underWay = new Map<string, Promise<InlineEnd<unknown>>>();

/** One run of a host's, by its own name for it. Made by `ledger.run`. */
export class Run {
  readonly #host: InlineHost;
  readonly #asked: Omit<InlineAsked, "name">;
  #caller: Promise<InlineCaller> | undefined;

  constructor(host: InlineHost, run: string, { task, actor, invocation }: RunOptions) {
    this.#host = host;
    this.#asked = { run, task: task ?? "default", actor: actor ?? null, invocation: invocation ?? null };
  }

  /**
   * Does something in another system once: its intent is recorded before `run`, its proof after it. Called again under the
   * same name, it never runs again: it answers what was recorded, or asks by `reconcile`.
   * @throws EffectUnresolvedError where nobody can tell whether it happened (`effect_unresolved`), or it is too early to ask
   *   (`still_running`); the next call asks.
   * @throws LedgerError a denial's code (`paused`, `unsupported`, …) with nothing recorded; `never_run` where its process knows
   *   that it did not run; `inline_invalid`; a code of class PE, or a connection's.
   */
  async effect<Proof extends NonNullable<unknown>>(
    name: string,
    functions: InlineFunctions<Proof>,
    options: InlineOptions = {},
  ): Promise<InlineEnd<Proof>> {
    const asked = { ...this.#asked, name };
    checkInline(asked, functions, options);
    try {
      const { place, actor } = await this.#whoAsks();
      const key = JSON.stringify([place, this.#host.ledgerId, actor, asked.run, name]);
      // What was stored is what a run or a reconcile of this name returned.
      return (await this.#shared(key, asked, functions, options)) as InlineEnd<Proof>;
    } catch (error) {
      throw wordConnectionError(error);
    }
  }

  /** No await between the look and the entry: of two calls at once the second finds the first. */
  #shared<Proof extends NonNullable<unknown>>(
    key: string,
    asked: InlineAsked,
    functions: InlineFunctions<Proof>,
    options: InlineOptions,
  ): Promise<InlineEnd<unknown>> {
    const begun = underWay.get(key);
    if (begun !== undefined) return begun;
    const call = inlineEffect(this.#host, key, asked, functions, options).finally(() => underWay.delete(key));
    underWay.set(key, call);
    return call;
  }

  #whoAsks(): Promise<InlineCaller> {
    this.#caller ??= inlineCaller(this.#host.pool, this.#asked.actor).catch((error: unknown) => {
      this.#caller = undefined; // asked again: an answer stays, a fault does not
      throw error;
    });
    return this.#caller;
  }
}
