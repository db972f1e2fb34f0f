/** An approver's key in every form that people have it in; a private one goes nowhere. */
import assert from "node:assert/strict";
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { keyIdOf, publicKeyFrom, rawPublicKey } from "../../src/core/approver-key.ts";

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const raw = Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url");
const pem = publicKey.export({ format: "pem", type: "spki" });
const der = publicKey.export({ format: "der", type: "spki" });

test("hex digits, PEM and SPKI's own bytes are the same 32 bytes", () => {
  assert.equal(raw.length, 32);
  for (const given of [raw.toString("hex"), `${raw.toString("hex").toUpperCase()}\n`, pem, Buffer.from(pem), der]) {
    assert.deepEqual(publicKeyFrom(given), raw);
  }
  assert.deepEqual(rawPublicKey(privateKey), raw);
});

test("a key's id is of its bytes", () => {
  // RFC 8032, 7.1, test 1; the id is the first 32 digits of its SHA-256.
  const first = Buffer.from("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "hex");
  assert.equal(keyIdOf(first), "21fe31dfa154a261626bf854046fd227");
});

test("a private key is refused in every form, without a word of it", () => {
  const encrypted = privateKey.export({ format: "pem", type: "pkcs8", cipher: "aes-256-cbc", passphrase: "open" });
  for (const given of [privateKey.export({ format: "pem", type: "pkcs8" }), encrypted]) {
    for (const form of [given, Buffer.from(given)]) {
      assert.throws(
        () => publicKeyFrom(form),
        (error: Error & { code?: string; hint?: string }) => {
          const secret = String(given).split("\n")[1] ?? "";
          assert.ok(secret.length > 20 && !`${error.message}${error.hint}${error.stack}`.includes(secret));
          return error.code === "key_private" && error.cause === undefined;
        },
      );
    }
  }
  assert.throws(() => publicKeyFrom(privateKey.export({ format: "der", type: "pkcs8" })), { code: "key_invalid" });
});

test("keys of other kinds, and what is no key, are refused", () => {
  const curve = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  for (const given of [
    curve.publicKey.export({ format: "pem", type: "spki" }),
    "",
    "ab".repeat(31),
    Buffer.alloc(64),
  ]) {
    assert.throws(() => publicKeyFrom(given), { code: "key_invalid" });
  }
  assert.throws(() => rawPublicKey(createPrivateKey(curve.privateKey.export({ format: "pem", type: "sec1" }))), {
    code: "key_invalid",
  });
});
