/** A host in a test: what it calls, how often its code ran and asked, and what the record has of it. */
import {
  EffectUnresolvedError,
  type InlineContext,
  type InlineEnd,
  type InlineFunctions,
  type InlineOptions,
} from "../../src/index.ts";
import type { TestLedger } from "../harness/ledger.ts";

export interface Receipt {
  readonly receipt: string;
}

export interface Calls {
  readonly functions: InlineFunctions<Receipt>;
  ran(): number;
  asked(): number;
}

type Answer<Value> = (context: InlineContext) => Promise<Value> | Value;

/** By default a run gives a receipt, and the recipient has no record of it. */
export function calls({
  run = () => ({ receipt: "r1" }),
  reconcile = () => null,
}: {
  readonly run?: Answer<Receipt>;
  readonly reconcile?: Answer<Receipt | null>;
} = {}): Calls {
  let ran = 0;
  let asked = 0;
  return {
    functions: {
      run: async (context) => {
        ran += 1;
        return run(context);
      },
      reconcile: async (context) => {
        asked += 1;
        return reconcile(context);
      },
    },
    ran: () => ran,
    asked: () => asked,
  };
}

/** A run that ends without an answer. */
export function lost(): never {
  throw new Error("the connection was reset");
}

/** A lease of the host's own keeps two of its processes apart: then every sentence of ADR 0200 holds. */
export const LEASED: InlineOptions = { runTimeoutMs: 0 };

/** The events of an effect whose intent stands. */
export const INTENT = ["requested", "prepared", "admitted", "intent"];

/** Whether an error says that nobody can tell. */
export function unresolved(error: unknown): boolean {
  return error instanceof EffectUnresolvedError && error.code === "effect_unresolved";
}

export interface Host {
  /** An effect of this host's run, on a lease of its own unless said otherwise. */
  effect(name: string, made: Calls, options?: InlineOptions): Promise<InlineEnd<Receipt>>;
  /** What happened to it, as the record has it. */
  events(name: string): Promise<readonly string[]>;
}

export function openHost(subject: TestLedger, run = "order-42"): Host {
  return {
    effect: (name, { functions }, options = LEASED) => subject.ledger.run(run).effect(name, functions, options),
    async events(name) {
      const rows = await subject.sql<{ event: string; via: string | null }>(
        `select v.event, v.detail ->> 'via' as via from audit.events v join audit.effects e using (effect_id)
          where e.run = $1 and e.name = $2 order by v.seq`,
        [run, name],
      );
      return rows.map(({ event, via }) => (via === null ? event : `${event} via ${via}`));
    },
  };
}
