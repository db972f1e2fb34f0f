/**
 * charge_card: one charge at a card API that speaks Idempotency-Key (the demo's own, src/demo/recipients/card-api.ts).
 * Its key there is the effect's key, by which a lookup finds the charge.
 *
 * An answer that names the charge is proof, `card_declined` is a refusal; whatever else comes, or nothing, is unknown. The
 * API keeps a key for 24 hours and no void marks, so a lookup that finds nothing concludes nothing.
 */
import { type IncomingMessage, request } from "node:http";
import { z } from "zod";
import { absent, accepted, defineOperation, failed, invalid, LedgerError, notSent, unknown } from "../../index.ts";

const input = z.strictObject({ customer: z.string().min(1).max(100), cents: z.int().positive() });
const charge = z.object({
  id: z.string().min(1).max(100),
  customer: z.string(),
  amount: z.int(),
  currency: z.string(),
  status: z.literal("succeeded"),
});
const proof = z.strictObject({ charge: z.string() });

type Input = z.infer<typeof input>;
type Proof = z.infer<typeof proof>;
interface Charge {
  readonly url: string;
  readonly customer: string;
  readonly amount: number;
  readonly currency: "usd";
}

/** More than any answer of the API has. */
const ANSWER_BYTES_MAX = 65_536;

export default defineOperation<Input, Proof, Charge>({
  name: "charge_card",
  version: 1,
  input,
  proof,
  contract: {
    cost: ({ cents }) => ({ usd_cents: BigInt(cents) }),
    dispatchTimeoutMs: 3_000,
    reconcileTimeoutMs: 8_000,
    idempotency: {
      scope: "account",
      retentionMs: 86_400_000,
      mismatch: "refused",
      concurrent: "safe", // 409 while the first request is answered
      failure: "saved",
    },
    failures: { card_declined: { effect: "none" } },
    accepts: "the charge is booked",
    reference: (booked) => booked.charge,
    secrets: ["CARDS_KEY"],
  },

  prepare: ({ customer, cents }) => {
    const url = URL.parse("/v1/charges", process.env.CARDS_URL);
    if (!url) return invalid("CARDS_URL does not say where the card API is");
    return {
      target: `card of ${customer} at ${url.host}`,
      payload: { url: url.href, customer, amount: cents, currency: "usd" },
      preview: `charge ${cents} usd_cents to ${customer} at ${url.host}`,
    };
  },

  dispatch: async ({ key, payload }, context) => {
    const { url, ...parameters } = payload;
    const connection = { stood: false };
    let answer: Answer;
    try {
      answer = await exchange(url, connection, {
        method: "POST",
        headers: { ...authorization(context), "content-type": "application/json", "idempotency-key": key },
        body: JSON.stringify(parameters),
        signal: context.signal,
      });
    } catch (error) {
      // node:http writes nothing before the connection stands.
      if (!connection.stood) return notSent({ reason: "no connection" });
      throw error;
    }
    if (answer.status === 402 && codeOf(answer) === "card_declined") return failed({ code: "card_declined" });
    const booked = charge.safeParse(answer.body);
    if (answer.status !== 200 || !booked.success) return unknown(`the API answered ${answer.status}`);
    if (!isOurs(booked.data, payload)) return unknown("the API answered with another charge");
    return accepted({ charge: booked.data.id }, { cost: { usd_cents: BigInt(booked.data.amount) } });
  },

  reconcile: async ({ key, payload }, context) => {
    const lookup = `${payload.url}?idempotency_key=${key}`;
    const asked = { method: "GET", headers: authorization(context), body: "", signal: context.signal };
    const answer = await exchange(lookup, { stood: false }, asked);
    const found = z.object({ data: z.array(charge) }).safeParse(answer.body);
    if (answer.status !== 200 || !found.success) {
      throw new LedgerError("lookup_failed", `the lookup answered ${answer.status}`, { hint: "ask again" });
    }
    const [booked, second] = found.data.data;
    if (!booked) return absent({ charges: 0 });
    if (second) return unknown("two charges under one key");
    if (!isOurs(booked, payload)) return unknown("the charge under our key differs from the binding");
    return accepted({ charge: booked.id }, { cost: { usd_cents: BigInt(booked.amount) } });
  },
});

function isOurs(booked: z.infer<typeof charge>, { customer, amount, currency }: Charge): boolean {
  return booked.customer === customer && booked.amount === amount && booked.currency === currency;
}

function authorization(context: { secret(name: string): string }): Record<string, string> {
  return { authorization: `Bearer ${context.secret("CARDS_KEY")}` };
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

function codeOf({ body }: Answer): string | undefined {
  const refused = z.object({ error: z.object({ code: z.string() }) }).safeParse(body);
  return refused.data?.error.code;
}

/** One request on a connection of its own: no kept one that could have been closed under it, and nothing that sends again. */
function exchange(
  url: string,
  connection: { stood: boolean },
  how: { method: string; headers: Record<string, string>; body: string; signal: AbortSignal },
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { method, signal, body } = how;
    const headers = { ...how.headers, connection: "close", "content-length": Buffer.byteLength(body) };
    const asking = request(url, { method, headers, signal, agent: false });
    asking.once("socket", (socket) => {
      socket.once("connect", () => {
        connection.stood = true;
      });
    });
    asking.once("error", reject);
    asking.once("response", (response) => readAnswer(response).then(resolve, reject));
    asking.end(body);
  });
}

async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) break; // leaving the loop destroys the response and its socket
    chunks.push(chunk);
  }
  return { status: response.statusCode ?? 0, body: parseJson(Buffer.concat(chunks).toString("utf8")) };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // not JSON: nothing in it counts
  }
}
