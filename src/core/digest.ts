/**
 * Digests: SHA-256 over a prefix that says what is digested and in which version, and the bytes. The database recomputes
 * each by constraint, with the same prefixes.
 */
import { createHash } from "node:crypto";

/** The version of the binding's form. A change of its fields is a new version. */
export const BINDING_VERSION = 1;

const PREFIX = {
  binding: `pg-effects/binding/${BINDING_VERSION}\n`,
  payload: "pg-effects/payload/1\n",
  evidence: "pg-effects/evidence/1\n",
} as const;

/** The digest of a binding's canonical bytes. */
export function bindingDigest(bytes: Uint8Array): Buffer {
  return sha256(PREFIX.binding, bytes);
}

/** The digest of a payload's bytes behind a random salt, so that a short payload cannot be guessed from it. */
export function payloadDigest(salt: Uint8Array, bytes: Uint8Array): Buffer {
  return sha256(PREFIX.payload, salt, bytes);
}

/** The digest of evidence as it is stored. */
export function evidenceDigest(bytes: Uint8Array): Buffer {
  return sha256(PREFIX.evidence, bytes);
}

/** SHA-256 without a prefix: of an attempt's token, of files. */
export function sha256(...parts: readonly (string | Uint8Array)[]): Buffer {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}
