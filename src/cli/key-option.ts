/** Keys among a command's options: read from files, bounded, and never printed. */
import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { open } from "node:fs/promises";
import { KEY_FILE_BYTES_MAX, keyIdOf, publicKeyFrom, rawPublicKey } from "../core/approver-key.ts";
import { LedgerError } from "../core/error.ts";

/** A public key as 64 hex digits, from such digits or a file. @throws LedgerError `key_private`, `key_invalid`, `input_unreadable` */
export async function readPublicKey(given: string): Promise<string> {
  const key = /^[0-9a-f]{64}$/i.test(given.trim()) ? given : await readBytes(given, KEY_FILE_BYTES_MAX);
  return publicKeyFrom(key).toString("hex");
}

/** Somebody who signs here and now. The private key stays inside. */
export interface SignerHere {
  readonly keyId: string;
  sign(statement: Uint8Array): Buffer;
}

/** A private key's file as a signer. @throws LedgerError `key_invalid`, `input_unreadable` */
export async function readSigner(file: string): Promise<SignerHere> {
  const key = privateKeyFrom(await readBytes(file, KEY_FILE_BYTES_MAX));
  return { keyId: keyIdOf(rawPublicKey(key)), sign: (statement) => sign(null, statement, key) };
}

/** Reads a file that is no larger than it may be. @throws LedgerError `input_unreadable` */
export async function readBytes(file: string, max: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    const handle = await open(file);
    // A stream, because a key may come through a pipe.
    for await (const chunk of handle.createReadStream() as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > max) break;
    }
  } catch (cause) {
    throw new LedgerError("input_unreadable", `${file} cannot be read: ${(cause as Error).message}`, {
      hint: "give the path of a file that can be read",
      cause,
    });
  }
  if (bytes <= max) return Buffer.concat(chunks);
  throw new LedgerError("input_unreadable", `${file} has more than ${max} bytes`, { hint: "give the right file" });
}

function privateKeyFrom(bytes: Buffer): KeyObject {
  try {
    return createPrivateKey(bytes);
  } catch {
    // Without the cause: nothing that was read of a private key goes on.
    throw new LedgerError("key_invalid", "that file holds no private key that can be read here", {
      hint: "an encrypted or remote key signs elsewhere: approval statement, then approve --statement, --signature, --key-id",
    });
  }
}
