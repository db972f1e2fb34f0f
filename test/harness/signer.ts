/** Somebody who approves: an Ed25519 key that never leaves this process, as `openssl` or a KMS would hold it. */
import { generateKeyPairSync, sign } from "node:crypto";

export interface Signer {
  /** 64 hex digits, as `effects.add_approver` takes it. */
  readonly publicKey: string;
  sign(statement: Uint8Array): Buffer;
}

export function makeSigner(): Signer {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const { x } = publicKey.export({ format: "jwk" });
  return {
    publicKey: Buffer.from(x ?? "", "base64url").toString("hex"),
    sign: (statement) => sign(null, statement, privateKey),
  };
}
