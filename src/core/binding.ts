/**
 * The binding: the immutable, versioned, canonical description of exactly what will be done (protocol, section 4). One
 * digest covers what is done and what a person was shown. Not in it: its digest, the attempt, any secret.
 */
import { type Amounts, amountsToJson } from "./amount.ts";
import { canonicalBytes } from "./canonical.ts";
import { BINDING_VERSION, bindingDigest, payloadDigest } from "./digest.ts";
import { LedgerError } from "./error.ts";
import { cleanText } from "./text.ts";

/** Everything that is bound. Names are those of the stored bytes. */
export interface BindingBody {
  readonly ledger: string;
  readonly effect: string;
  readonly operation: string;
  readonly version: number;
  readonly implementation: string;
  readonly release: string;
  readonly account: string | null;
  readonly target: string;
  readonly payload_digest: string;
  readonly precondition: unknown;
  readonly task: string;
  readonly subject: string | null;
  readonly actor: string;
  /** The policy chosen; `null` where none covers it, and admission will say so. */
  readonly policy: string | null;
  readonly policy_revision: number | null;
  readonly maximum_cost: Readonly<Record<string, string>>;
  readonly expires_at_ms: number;
  readonly preview: string;
}

export interface Binding {
  readonly version: number;
  readonly bytes: Buffer;
  readonly digest: Buffer;
  readonly salt: Buffer;
  readonly payload: Buffer;
  readonly payloadDigest: Buffer;
}

/** What a binding is made from. */
export interface BindingParts extends Omit<BindingBody, "payload_digest" | "maximum_cost" | "preview"> {
  readonly payload: unknown;
  readonly maximumCost: Amounts;
  readonly preview: string;
  /** 16 random bytes. */
  readonly salt: Buffer;
  readonly bindingBytesMax: number;
}

/**
 * Serialises and digests a binding.
 * @throws LedgerError `input_unfaithful` for what JSON cannot carry, `binding_too_large` above the contract's share.
 */
export function makeBinding(parts: BindingParts): Binding {
  const { payload, maximumCost, preview, salt, bindingBytesMax, ...bound } = parts;
  const payloadBytes = canonicalBytes(payload);
  const digestOfPayload = payloadDigest(salt, payloadBytes);
  const body: BindingBody = {
    ...bound,
    payload_digest: digestOfPayload.toString("hex"),
    maximum_cost: amountsToJson(maximumCost),
    preview: cleanText(preview, 500),
  };
  const bytes = canonicalBytes(body);
  if (bytes.length > bindingBytesMax) {
    throw new LedgerError(
      "binding_too_large",
      `the binding has ${bytes.length} bytes, the contract allows ${bindingBytesMax}`,
      {
        hint: "raise contract.bindingBytesMax (up to 65536), or bind a reference instead of content",
      },
    );
  }
  return {
    version: BINDING_VERSION,
    bytes,
    digest: bindingDigest(bytes),
    salt,
    payload: payloadBytes,
    payloadDigest: digestOfPayload,
  };
}

/** Reads what `makeBinding` wrote, after its digest was found to match. */
export function readBinding(text: string): BindingBody {
  return JSON.parse(text) as BindingBody;
}
