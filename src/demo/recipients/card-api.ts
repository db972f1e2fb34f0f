/**
 * A small charge API of ours on loopback. It imitates no provider; it speaks the Idempotency-Key rules that card APIs
 * document: a key is kept 24 hours, the same key with the same parameters returns the saved answer with the header
 * `Idempotent-Replayed: true`, other parameters are refused with 422, and 409 while the first request is still answered.
 * A declined card is a saved answer too; a request that was never carried out (400, 401, 409, 413, 422) saves nothing.
 *
 *     POST /v1/charges                       {customer, amount, currency}; Authorization: Bearer TOKEN; Idempotency-Key: K
 *     GET  /v1/charges?idempotency_key=K     {data: [charge, …]}
 *     GET  /v1/charges/ID
 */
import { createServer, type IncomingMessage } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type CardAnswer, CardBook, type Charge, type ChargeRequest, refusal } from "./card-book.ts";
import { type AnswerHold, HeldAnswers } from "./held-answers.ts";
import { checkedDelayMs, type Listener, listenOnLoopback } from "./loopback.ts";
import { answerJson, readBody } from "./loopback-http.ts";

const CHARGES_PATH = "/v1/charges";

/** As card APIs document it. */
const KEY_LENGTH_MAX = 255;

type HttpAnswer = CardAnswer & { readonly headers?: Readonly<Record<string, string>> };

export interface CardApiOptions {
  /** The bearer token that is accepted. */
  readonly token: string;
  /** How long a request that was carried out waits for its answer, in milliseconds. Default 0. */
  readonly answerDelayMs?: number;
  /** Milliseconds, for the retention of keys. Default: the wall clock. */
  readonly clock?: () => number;
}

export interface CardApi extends Listener {
  readonly url: string;
  /** POSTs that arrived whole, also replayed and refused ones. */
  readonly requests: number;
  /** Charges booked. */
  readonly charges: number;
  /** GETs that arrived. */
  readonly lookups: number;
  /** POSTs that arrived whole with this Idempotency-Key. */
  requestsFor(key: string): number;
  /** POSTs that arrived whole and ask for a charge of this customer, with whatever key, also replayed and refused ones. */
  requestsOf(customer: string): number;
  /** Charges booked for this customer, under whatever key. */
  chargesOf(customer: string): readonly Charge[];
  /** Charges booked under this Idempotency-Key. */
  chargesFor(key: string): readonly Charge[];
  /** From now on a request is carried out (the charge is booked) and its answer waits. Replays and refusals do not. */
  holdAnswers(): AnswerHold;
}

/** @throws LedgerError `delay_invalid`, `recipient_not_started` */
export async function startCardApi(options: CardApiOptions): Promise<CardApi> {
  const answerDelayMs = checkedDelayMs("answerDelayMs", options.answerDelayMs ?? 0);
  const book = new CardBook(options.clock ?? Date.now);
  const held = new HeldAnswers();
  const requestsByKey = new Map<string | null, number>();
  const requestsByCustomer = new Map<string, number>();
  let requests = 0;
  let lookups = 0;

  /** Null: no request arrived, its client went away while sending it. */
  const charge = async (request: IncomingMessage): Promise<HttpAnswer | null> => {
    const body = await readBody(request);
    if (body === "cut") return null;
    const key = header(request, "idempotency-key");
    requests += 1;
    requestsByKey.set(key, (requestsByKey.get(key) ?? 0) + 1);
    const parsed = body === "too_large" ? null : parseCharge(body);
    if (parsed) requestsByCustomer.set(parsed.customer, (requestsByCustomer.get(parsed.customer) ?? 0) + 1);
    if (!authorized(request, options.token)) return refusal(401, "token_invalid");
    if (body === "too_large") return refusal(413, "body_too_large");
    if (key !== null && key.length > KEY_LENGTH_MAX) return refusal(400, "idempotency_key_too_long");
    if (parsed === null) return refusal(400, "parameters_invalid");
    const verdict = book.submit(key, parsed);
    if (verdict.kind === "refused") return verdict.answer;
    if (verdict.kind === "replayed") return { ...verdict.answer, headers: { "Idempotent-Replayed": "true" } };
    if (answerDelayMs > 0) await delay(answerDelayMs, undefined, { ref: false });
    await held.wait();
    verdict.answered();
    return verdict.answer;
  };

  const lookUp = (request: IncomingMessage, url: URL): HttpAnswer => {
    lookups += 1;
    if (!authorized(request, options.token)) return refusal(401, "token_invalid");
    const key = url.searchParams.get("idempotency_key");
    if (url.pathname === CHARGES_PATH && key !== null) return { status: 200, body: { data: book.byKey(key) } };
    const id = url.pathname.startsWith(`${CHARGES_PATH}/`) ? url.pathname.slice(CHARGES_PATH.length + 1) : "";
    const found = book.byId(id);
    return found === null ? refusal(404, "not_found") : { status: 200, body: found };
  };

  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", "http://loopback");
    const isCharge = request.method === "POST" && url.pathname === CHARGES_PATH;
    const isLookup = request.method === "GET";
    const answer: HttpAnswer | null = isCharge
      ? await charge(request)
      : isLookup
        ? lookUp(request, url)
        : refusal(404, "not_found");
    if (answer !== null) answerJson(response, answer.status, answer.body, answer.headers);
  });
  const listener = await listenOnLoopback(server);

  return {
    host: listener.host,
    port: listener.port,
    url: `http://${listener.host}:${listener.port}`,
    get requests() {
      return requests;
    },
    get charges() {
      return book.size;
    },
    get lookups() {
      return lookups;
    },
    requestsFor: (key) => requestsByKey.get(key) ?? 0,
    requestsOf: (customer) => requestsByCustomer.get(customer) ?? 0,
    chargesOf: (customer) => book.byCustomer(customer),
    chargesFor: (key) => book.byKey(key),
    holdAnswers: () => held.hold(),
    async stop() {
      held.abandon();
      await listener.stop();
    },
  };
}

function header(request: IncomingMessage, name: string): string | null {
  const value = request.headers[name];
  return typeof value === "string" ? value : null;
}

function authorized(request: IncomingMessage, token: string): boolean {
  return request.headers.authorization === `Bearer ${token}`;
}

/** Exactly the three parameters, or null: a parameter that the API does not know is refused, never ignored. */
function parseCharge(body: Buffer): ChargeRequest | null {
  let value: unknown;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch {
    return null; // not JSON: the answer says so with 400
  }
  if (typeof value !== "object" || value === null || Object.keys(value).length !== 3) return null;
  const { customer, amount, currency } = value as Record<string, unknown>;
  if (typeof customer !== "string" || customer === "") return null;
  if (typeof amount !== "number" || !Number.isSafeInteger(amount) || amount <= 0) return null;
  if (typeof currency !== "string" || !/^[a-z]{3}$/.test(currency)) return null;
  return { customer, amount, currency };
}
