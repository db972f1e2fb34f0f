/**
 * The books of the card API (`card-api.ts`): which charges exist, and what each idempotency key was answered. It knows no
 * HTTP. Nothing ever removes a charge.
 */
import { randomBytes } from "node:crypto";

/** As card APIs document it: a key is kept 24 hours; after that the same key makes a new request. */
export const KEY_RETENTION_MS = 86_400_000;

/** The customer whose card is always declined. */
export const DECLINED_CUSTOMER = "customer:declined";

export interface ChargeRequest {
  readonly customer: string;
  /** In the currency's smallest unit. */
  readonly amount: number;
  /** Three lower-case letters. */
  readonly currency: string;
}

export interface Charge extends ChargeRequest {
  readonly id: string;
  readonly status: "succeeded";
}

export interface CardAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** What became of a request: carried out now, answered as before, or refused without touching the books. */
export type Verdict =
  | { readonly kind: "executed"; readonly answer: CardAnswer; readonly answered: () => void }
  | { readonly kind: "replayed"; readonly answer: CardAnswer }
  | { readonly kind: "refused"; readonly answer: CardAnswer };

interface SavedKey {
  readonly parameters: string;
  readonly firstUsedMs: number;
  readonly answer: CardAnswer;
  inUse: boolean;
}

export class CardBook {
  readonly #clock: () => number;
  readonly #charges: { readonly key: string | null; readonly charge: Charge }[] = [];
  readonly #keys = new Map<string, SavedKey>();

  /** `clock`: milliseconds, only compared with itself. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Charges booked. */
  get size(): number {
    return this.#charges.length;
  }

  byKey(key: string): readonly Charge[] {
    return this.#charges.filter((booked) => booked.key === key).map((booked) => booked.charge);
  }

  byCustomer(customer: string): readonly Charge[] {
    return this.#charges.map((booked) => booked.charge).filter((charge) => charge.customer === customer);
  }

  byId(id: string): Charge | null {
    return this.#charges.find((booked) => booked.charge.id === id)?.charge ?? null;
  }

  /**
   * Books the charge, declines it, or recognises the key. The key is in use until the caller reports the answer as given.
   * Other parameters are refused before anything else is said about a key.
   */
  submit(key: string | null, request: ChargeRequest): Verdict {
    const parameters = JSON.stringify([request.customer, request.amount, request.currency]);
    const saved = key === null ? undefined : this.#keys.get(key);
    if (saved !== undefined && this.#clock() - saved.firstUsedMs < KEY_RETENTION_MS) {
      if (saved.parameters !== parameters) return { kind: "refused", answer: refusal(422, "idempotency_mismatch") };
      if (saved.inUse) return { kind: "refused", answer: refusal(409, "idempotency_key_in_use") };
      return { kind: "replayed", answer: saved.answer };
    }
    const answer = this.#carryOut(key, request);
    const entry: SavedKey = { parameters, firstUsedMs: this.#clock(), answer, inUse: true };
    if (key !== null) this.#keys.set(key, entry);
    return {
      kind: "executed",
      answer,
      answered: () => {
        entry.inUse = false;
      },
    };
  }

  #carryOut(key: string | null, { customer, amount, currency }: ChargeRequest): CardAnswer {
    if (customer === DECLINED_CUSTOMER) return refusal(402, "card_declined");
    const id = `ch_${randomBytes(12).toString("hex")}`;
    const charge: Charge = { id, amount, currency, customer, status: "succeeded" };
    this.#charges.push({ key, charge });
    return { status: 200, body: charge };
  }
}

export function refusal(status: number, code: string): CardAnswer {
  return { status, body: { error: { code } } };
}
