/**
 * http_request: sends one HTTP request whose input says which answers mean what. A webhook is this without a lookup; an API
 * with Idempotency-Key is this with `idempotencyKeyHeader`, which then carries the effect's key.
 *
 * Only an answer that the input's accept rule validated is proof, and only a 4xx that the input lists is a refusal. It must
 * never send twice, follow a redirect, or send the token anywhere but to its own origin.
 *
 * By node:http, not by fetch: fetch sends a request again when the answer is 421 (seen: two hits), and does not tell
 * whether a connection stood before an error.
 */
import { type IncomingMessage, type OutgoingHttpHeaders, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { z } from "zod";
import {
  type AdapterContext,
  absent,
  accepted,
  type BoundEffect,
  type DispatchReport,
  defineOperation,
  failed,
  LedgerError,
  notSent,
  type ReconcileReport,
  unknown,
} from "../src/index.ts";

/** Ours, or the connection's: never the caller's. A caller's Cookie or token would be a secret in the record. */
const RESERVED_HEADERS = new Set(
  `authorization cookie proxy-authorization idempotency-key host connection content-length transfer-encoding expect
   keep-alive proxy-connection te trailer upgrade`.split(/\s+/),
);
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$/;
/** What is read of an answer, in bytes. More than an acknowledgement needs; the rest is not read. */
const BODY_BYTES_MAX = 65_536;

const pointer = z
  .string()
  .max(200)
  .regex(/^(\/([^~/]|~[01])*)*$/, "a JSON pointer (RFC 6901)");
const checks = z.record(pointer, z.union([z.string(), z.number(), z.boolean(), z.null()]));
const url = z.url({ protocol: /^https?$/ }).max(2_000);

const input = z
  .strictObject({
    method: z.enum(["POST", "PUT", "PATCH", "DELETE"]),
    url,
    headers: z
      .record(
        z.string().regex(HEADER_NAME, "a header name in lower case"),
        z
          .string()
          .max(1_000)
          .regex(/^[\t\x20-\x7e]*$/),
      )
      .refine((headers) => Object.keys(headers).every((name) => !RESERVED_HEADERS.has(name)), "a header is reserved")
      .default({}),
    /** Sent as JSON. */
    body: z.json().optional(),
    /** The header that carries the effect's key, for example `idempotency-key`. Left out: the recipient gets no key. */
    idempotencyKeyHeader: z
      .string()
      .regex(HEADER_NAME, "a header name in lower case")
      .refine((name) => name === "idempotency-key" || !RESERVED_HEADERS.has(name), "this header is reserved")
      .optional(),
    /** What acceptance is: a status and, in a JSON body, the recipient's own id and fixed values. */
    accept: z
      .strictObject({
        status: z.array(z.int().min(200).max(299)).min(1).default([200, 201]),
        /** Where the recipient's id stands. null: it gives none. With null and no `equals` the status alone counts. */
        reference: pointer.nullable().default("/id"),
        equals: checks.default({}),
      })
      .prefault({}),
    /** The answers that say for certain that nothing happened. */
    refusals: z.array(z.strictObject({ status: z.int().min(400).max(499), equals: checks.default({}) })).default([]),
    lookup: z
      .strictObject({
        /** `{key}` stands for the effect's key. */
        url: z.string().max(2_000).includes("{key}"),
        /** Where in the answer the match stands: an object, null, or an array of matches. */
        found: pointer.default(""),
        /** What must be equal in the match, so that another object is not taken for ours. */
        equals: checks.refine((wanted) => Object.keys(wanted).length > 0, "compare at least one value"),
      })
      .optional(),
    /** The maximum cost: unit to integer, as a number or decimal string. */
    cost: z.record(z.string(), z.union([z.int().nonnegative(), z.string().regex(/^\d{1,19}$/)])).default({}),
  })
  .refine((whole) => placeOf(whole.url) !== null, "a URL without account and fragment")
  .refine(
    (whole) =>
      !whole.lookup || placeOf(whole.lookup.url.replaceAll("{key}", "k"))?.origin === placeOf(whole.url)?.origin,
    "the lookup asks the same origin",
  );
const proof = z.strictObject({ status: z.int(), reference: z.string().nullable() });

type Input = z.infer<typeof input>;
type Proof = z.infer<typeof proof>;
type Checks = z.infer<typeof checks>;
/** `body`: the exact text that is sent. `authorize`: the token goes with it. */
type Request = Omit<Input, "body" | "cost"> & { readonly body: string | null; readonly authorize: boolean };
type Bound = BoundEffect<Request>;

export default defineOperation<Input, Proof, Request, z.input<typeof input>>({
  name: "http_request",
  version: 1,
  input,
  proof,
  contract: {
    cost: ({ cost }) => Object.fromEntries(Object.entries(cost).map(([unit, amount]) => [unit, BigInt(amount)])),
    failures: { refused: { effect: "none" } },
    accepts: "the recipient gave an answer that the request's accept rule names",
    bindingBytesMax: 16_384, // a body of a few kilobytes
    reference: ({ reference, status }) => reference ?? `status ${status}`,
    secrets: ["HTTP_REQUEST_TOKEN", "HTTP_REQUEST_ORIGIN"],
  },

  prepare: (wanted, context) => {
    const { body, cost: _cost, ...rest } = wanted;
    const authorize = tokenFor(wanted.url, context) !== null;
    const { origin, pathname } = new URL(wanted.url);
    return {
      target: `${wanted.method} ${wanted.url}`,
      account: authorize ? `HTTP_REQUEST_TOKEN at ${origin}` : "none",
      payload: { ...rest, authorize, body: body === undefined ? null : JSON.stringify(body) },
      preview: `${wanted.method} ${origin}${pathname}`,
    };
  },

  dispatch: async (effect, context) => {
    const { method, headers, body, idempotencyKeyHeader, authorize } = effect.payload;
    const token = tokenFor(effect.payload.url, context);
    if (authorize !== (token !== null)) return notSent({ reason: "the token is not the one of the binding" });
    const connection = { stood: false };
    let answer: Answer;
    try {
      answer = await exchange(effect.payload.url, connection, {
        method,
        signal: context.signal,
        body,
        headers: {
          ...headers,
          ...(body === null ? {} : { "content-type": headers["content-type"] ?? "application/json" }),
          ...(idempotencyKeyHeader ? { [idempotencyKeyHeader]: effect.key } : {}),
          ...(token ? { authorization: `Bearer ${token}` } : {}),
        },
      });
    } catch (error) {
      // node:http writes nothing before the connection, and in https the TLS session, stands.
      if (!connection.stood) return notSent({ reason: "no connection", code: codeOf(error) });
      throw error;
    }
    return judge(answer, effect.payload);
  },

  reconcile: async (effect, context) => {
    const { lookup, headers, authorize } = effect.payload;
    if (!lookup) return unknown("no lookup is declared");
    const token = tokenFor(effect.payload.url, context);
    if (authorize !== (token !== null)) throw couldNotAsk("the token is not the one of the binding");
    const { "content-type": _none, ...asked } = headers;
    const answer = await exchange(
      lookup.url.replaceAll("{key}", effect.key),
      { stood: false },
      {
        method: "GET",
        signal: context.signal,
        body: null,
        headers: { ...asked, ...(token ? { authorization: `Bearer ${token}` } : {}) },
      },
    );
    if (answer.status === 404) return absent({ status: 404 });
    if (answer.status !== 200 || answer.json === undefined) throw couldNotAsk(`the lookup answered ${told(answer)}`);
    return judgeMatches(valueAt(answer.json, lookup.found), answer, effect);
  },
});

function judge(answer: Answer, { accept, refusals }: Request): DispatchReport<Proof> {
  const { status, json } = answer;
  const refusal = refusals.find((declared) => declared.status === status && differing(json, declared.equals) === null);
  if (refusal) {
    const evidence = { code: "refused", status, body: answer.excerpt };
    return failed(evidence);
  }
  if (!accept.status.includes(status)) return unknown(`answered ${told(answer)}: not an answer that the request names`);
  const difference = differing(json, accept.equals);
  if (difference !== null) return unknown(`answered ${told(answer)}: ${difference}`);
  if (accept.reference === null) return accepted({ status, reference: null });
  const reference = idAt(json, accept.reference);
  return reference === null
    ? unknown(`answered ${told(answer)}: no id at ${accept.reference}`)
    : accepted({ status, reference });
}

function judgeMatches(found: unknown, answer: Answer, { payload }: Bound): ReconcileReport<Proof> {
  if (found === undefined) throw couldNotAsk(`the lookup answered ${told(answer)}, without the place of the match`);
  const matches = Array.isArray(found) ? found : found === null ? [] : [found];
  if (matches.length === 0) return absent({ status: answer.status, matches: 0 });
  if (matches.length > 1) return unknown(`${matches.length} matches: ${answer.excerpt}`);
  const difference = differing(matches[0], payload.lookup?.equals ?? {});
  if (difference !== null) return unknown(`the match differs from the binding: ${difference}; ${answer.excerpt}`);
  if (payload.accept.reference === null) return accepted({ status: answer.status, reference: null });
  const reference = idAt(matches[0], payload.accept.reference);
  return reference === null ? unknown("the match has no id") : accepted({ status: answer.status, reference });
}

/** What is not as wanted, or null. */
function differing(json: unknown, wanted: Checks): string | null {
  const wrong = Object.entries(wanted).find(([at, value]) => valueAt(json, at) !== value);
  return wrong ? `${wrong[0]} is not ${JSON.stringify(wrong[1])}` : null;
}

function idAt(json: unknown, at: string): string | null {
  const id = valueAt(json, at);
  if (Number.isSafeInteger(id)) return String(id);
  return typeof id === "string" && id !== "" && id.length <= 500 ? clean(id) : null;
}

/** RFC 6901; undefined where nothing stands. */
function valueAt(json: unknown, at: string): unknown {
  let value = json;
  for (const part of at.split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

/** `json`: undefined unless the whole body is JSON and says so. */
interface Answer {
  readonly status: number;
  readonly json: unknown;
  readonly excerpt: string;
}

/** One request on a connection of its own, which the signal destroys. `connection.stood` is set before a byte leaves. */
function exchange(
  address: string,
  connection: { stood: boolean },
  how: { method: string; headers: OutgoingHttpHeaders; body: string | null; signal: AbortSignal },
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const secure = address.startsWith("https:");
    const content = how.body === null ? Buffer.alloc(0) : Buffer.from(how.body);
    const request = (secure ? requestHttps : requestHttp)(address, {
      method: how.method,
      agent: false, // no kept connection, hence none that was closed under the request
      signal: how.signal,
      headers: { accept: "application/json", ...how.headers, connection: "close", "content-length": content.length },
    });
    request.once("socket", (socket) => {
      socket.once(secure ? "secureConnect" : "connect", () => {
        connection.stood = true;
      });
    });
    request.once("error", reject);
    request.once("response", (response) => readAnswer(response).then(resolve, reject));
    request.end(content);
  });
}

async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) break; // leaving the loop destroys the response and its socket
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  const isJson = /^application\/([\w.+-]+\+)?json\b/i.test(response.headers["content-type"] ?? "");
  return {
    status: response.statusCode ?? 0,
    json: isJson && bytes <= BODY_BYTES_MAX ? parseJson(body) : undefined,
    excerpt: clean(body.toString("utf8")).slice(0, 300).toWellFormed(),
  };
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    return undefined; // not what it says it is: nothing in it counts
  }
}

/**
 * The bearer token for this URL, or null where none is set or the URL is not of the token's origin.
 * @throws LedgerError `origin_missing`: a token without an origin would go to whatever host a request names.
 */
function tokenFor(address: string, context: AdapterContext): string | null {
  const token = optionalSecret(context, "HTTP_REQUEST_TOKEN");
  if (token === null) return null;
  const origin = optionalSecret(context, "HTTP_REQUEST_ORIGIN");
  if (origin === null) {
    throw new LedgerError("origin_missing", "HTTP_REQUEST_TOKEN is set without HTTP_REQUEST_ORIGIN", {
      hint: "set HTTP_REQUEST_ORIGIN to the one origin that may receive the token, for example https://api.example.test",
    });
  }
  return placeOf(origin)?.origin === placeOf(address)?.origin ? token : null;
}

function optionalSecret(context: AdapterContext, name: string): string | null {
  try {
    return context.secret(name);
  } catch (error) {
    if (error instanceof LedgerError && error.code === "secret_missing") return null;
    throw error;
  }
}

function placeOf(address: string): URL | null {
  const parsed = URL.parse(address);
  return parsed && !parsed.username && !parsed.password && !parsed.hash ? parsed : null;
}

function told({ status, excerpt }: Answer): string {
  return excerpt === "" ? `${status} without a body` : `${status} (${excerpt})`;
}

function couldNotAsk(message: string): LedgerError {
  return new LedgerError("lookup_failed", message, { hint: "ask again" });
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code).slice(0, 40) : "connection_failed";
}

/** Text of a stranger as inert text: no control characters, well-formed. */
function clean(text: string): string {
  return text
    .replace(/\p{Cc}+/gu, " ")
    .trim()
    .toWellFormed();
}
