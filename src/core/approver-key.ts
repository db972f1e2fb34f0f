/**
 * An approver's key as people have it: 64 hex digits, or what `openssl pkey -pubout` writes. A private key is refused, and
 * nothing of it is ever repeated: whoever hands one over by mistake must not find it in a log.
 */
import { createPublicKey, type KeyObject } from "node:crypto";
import { sha256 } from "./digest.ts";
import { LedgerError } from "./error.ts";

/** Beyond this it is no key. */
export const KEY_FILE_BYTES_MAX = 16_384;

const HOW = "give 64 hex digits, or the file that this writes: openssl pkey -in key.pem -pubout -out key.pub.pem";

/**
 * The 32 bytes of an Ed25519 public key, from 64 hex digits, PEM, or SPKI's own bytes.
 * @throws LedgerError `key_private` for a private key, `key_invalid` for whatever else is none.
 */
export function publicKeyFrom(given: string | Uint8Array): Buffer {
  const text = typeof given === "string" ? given : Buffer.from(given).toString("latin1");
  if (/^\s*[0-9a-f]{64}\s*$/i.test(text)) return Buffer.from(text.trim(), "hex");
  // createPublicKey would take a private key, too, and derive the other half.
  if (/PRIVATE KEY/.test(text)) throw isPrivate();
  return rawPublicKey(readSpki(given));
}

/** The raw 32 bytes of a key's public half. @throws LedgerError `key_invalid` where it is of another kind. */
export function rawPublicKey(key: KeyObject): Buffer {
  if (key.asymmetricKeyType !== "ed25519") {
    throw new LedgerError("key_invalid", `the key is of the kind ${key.asymmetricKeyType ?? "secret"}, not Ed25519`, {
      hint: "openssl genpkey -algorithm ed25519 -out key.pem",
    });
  }
  const { x } = (key.type === "private" ? createPublicKey(key) : key).export({ format: "jwk" });
  return Buffer.from(x ?? "", "base64url");
}

/** A key's id: 32 hex digits of its bytes, so that one name cannot stand for another key (migrations/0002_authority.sql). */
export function keyIdOf(publicKey: Uint8Array): string {
  return sha256(publicKey).toString("hex").slice(0, 32);
}

function readSpki(given: string | Uint8Array): KeyObject {
  try {
    return typeof given === "string" || given[0] !== 0x30
      ? createPublicKey({ key: typeof given === "string" ? given : Buffer.from(given).toString("utf8"), format: "pem" })
      : createPublicKey({ key: Buffer.from(given), format: "der", type: "spki" });
  } catch {
    // Without the cause: OpenSSL's words are about its decoder, and a stack would not help whoever gave the wrong file.
    throw new LedgerError("key_invalid", "that is no Ed25519 public key", { hint: HOW });
  }
}

function isPrivate(): LedgerError {
  return new LedgerError("key_private", "that is a private key: it is its approver's alone, and goes nowhere", {
    hint: "give its public half: openssl pkey -in key.pem -pubout -out key.pub.pem",
  });
}
