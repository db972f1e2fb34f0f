/**
 * Operations whose recipient is the test itself: what they do is given as functions, and what arrived is counted by its
 * target. Nothing leaves the process.
 */
import { z } from "zod";
import {
  type AdapterContext,
  accepted,
  type BoundEffect,
  type Cleaned,
  type ContractDeclaration,
  type DispatchContext,
  type DispatchReport,
  defineOperation,
  type FenceReport,
  type Operation,
  type ReconcileReport,
} from "../../src/index.ts";

const note = z.strictObject({ to: z.string(), cents: z.int().nonnegative().optional() });
const receipt = z.strictObject({ receipt: z.string() });

export type Note = z.infer<typeof note>;
export type Receipt = z.infer<typeof receipt>;
type Effect = BoundEffect<Note>;

export interface Behaviour {
  readonly contract?: ContractDeclaration<Note, Receipt>;
  /** Before the binding. Default: nothing. */
  readonly prepare?: (given: Note, context: AdapterContext) => unknown;
  /** Default: accepted, with the target as its receipt. */
  readonly dispatch?: (
    effect: Effect,
    context: DispatchContext,
  ) => Promise<DispatchReport<Receipt>> | DispatchReport<Receipt>;
  readonly reconcile?: (effect: Effect, context: AdapterContext) => Promise<ReconcileReport<Receipt>>;
  readonly fence?: (effect: Effect, context: AdapterContext) => Promise<FenceReport<Receipt>>;
  readonly cleanup?: (effect: Effect, context: AdapterContext) => Promise<Cleaned> | Cleaned;
}

/** How often the recipient was asked to do something, and how often about something. */
export interface Counted {
  readonly operation: Operation<Note, Receipt, Note>;
  /** Dispatches that arrived for this target. */
  hits(to: string): number;
  /** Lookups and fences that arrived for this target. */
  asked(to: string): number;
  /** Cleanups that arrived for this target. */
  cleaned(to: string): number;
}

/** An operation `to` somebody; its cost is the note's cents, where there are any. */
export function countedOperation(name: string, behaviour: Behaviour = {}): Counted {
  const hits = new Map<string, number>();
  const asked = new Map<string, number>();
  const cleaned = new Map<string, number>();
  const count = (counts: Map<string, number>, { target }: Effect) => counts.set(target, (counts.get(target) ?? 0) + 1);
  const { prepare, dispatch, reconcile, fence, cleanup } = behaviour;
  const operation = defineOperation<Note, Receipt, Note>({
    name,
    version: 1,
    input: note,
    proof: receipt,
    contract: { cost: ({ cents }) => (cents === undefined ? {} : { usd_cents: BigInt(cents) }), ...behaviour.contract },
    prepare: async (given, context) => {
      await prepare?.(given, context);
      return { target: given.to, payload: given };
    },
    dispatch: (effect, context) => {
      count(hits, effect);
      return dispatch ? dispatch(effect, context) : accepted({ receipt: effect.target });
    },
    ...(reconcile && {
      reconcile: async (effect, context) => {
        count(asked, effect);
        return reconcile(effect, context);
      },
    }),
    ...(fence && {
      fence: async (effect, context) => {
        count(asked, effect);
        return fence(effect, context);
      },
    }),
    ...(cleanup && {
      cleanup: (effect, context) => {
        count(cleaned, effect);
        return cleanup(effect, context);
      },
    }),
  });
  return {
    operation,
    hits: (to) => hits.get(to) ?? 0,
    asked: (to) => asked.get(to) ?? 0,
    cleaned: (to) => cleaned.get(to) ?? 0,
  };
}
