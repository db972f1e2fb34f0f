/** `approval approve`: signs here, or submits what was signed elsewhere. What does not verify never leaves this process. */
import type { Command } from "commander";
import { isSignedBy, readStatement } from "../../core/approval.ts";
import { LedgerError } from "../../core/error.ts";
import { cleanText } from "../../core/text.ts";
import type { AwaitingApproval, SigningKey } from "../../store/audit-schema-policy.ts";
import { SUBMIT_APPROVAL } from "../../store/authority.ts";
import { runChange } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type Connected, type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { AWAITING_HELP, findAwaitingEffect } from "../find-awaiting.ts";
import { readBytes, readSigner } from "../key-option.ts";
import type { Output } from "../output.ts";
import { calledBy, shortId } from "../short-id.ts";
import { showStatement } from "./approval-statement.ts";

interface ApproveFlags {
  readonly key?: string;
  readonly statement?: string;
  readonly signature?: string;
  readonly keyId?: string;
}

/** What is submitted. */
interface Signed {
  readonly statement: Buffer;
  readonly signature: Buffer;
  readonly keyId: string;
}

/** As the ledger bounds a statement (migrations/0016_approval.sql). */
const STATEMENT_BYTES_MAX = 8_192;
const SIGNATURE_BYTES = 64;

export function addApprove(approval: Command): void {
  const approve = approval
    .command("approve")
    .summary("approve exactly what is bound")
    .description(
      "Approve what is bound now, up to its maximum cost and until it expires. With --key it makes the statement, shows " +
        "what it means, signs it here and submits it; the key goes nowhere. A statement that was signed elsewhere is submitted " +
        "with --statement, --signature and --key-id.",
    )
    .argument("<effect>", AWAITING_HELP)
    .option("--key <file>", "an Ed25519 private key, as `openssl genpkey -algorithm ed25519` writes it")
    .option("--statement <file>", "what `approval statement` wrote, unchanged")
    .option("--signature <file>", "64 bytes, as `openssl pkeyutl -sign -rawin` writes them")
    .option("--key-id <id>", "the key that signed: its id, the last eight digits of it, or its person's name")
    .action((given: string, _flags: ApproveFlags, self: Command) =>
      conclude<ApproveFlags>(self, (output, flags) => run(output, flags, given)),
    );
  withExamples(approve, [
    "approval approve order/43/charge --key ana.pem",
    "approval approve order/43/charge --statement statement --signature signature --key-id ana",
  ]);
}

async function run(output: Output, flags: ApproveFlags & GlobalFlags, given: string): Promise<ExitCode> {
  const { key, statement, signature, keyId } = flags;
  const elsewhere = [statement, signature, keyId];
  if (
    (key === undefined) === elsewhere.every((each) => each === undefined) ||
    (!key && elsewhere.includes(undefined))
  ) {
    throw new LedgerError("usage_invalid", "an approval is signed here or elsewhere", {
      hint: "give --key alone, or --statement, --signature and --key-id together",
    });
  }
  return withAudit(flags, async (connected) => {
    const effect = await findAwaitingEffect(connected, given);
    const signed =
      key === undefined
        ? await signedElsewhere(effect, statement ?? "", signature ?? "", keyId ?? "")
        : await signHere(connected, output, effect, key);
    checkSignature(effect.keys, signed);
    const { approval_id } = await runChange<{ approval_id: string }>(connected.connectionString, {
      text: SUBMIT_APPROVAL,
      values: [signed.statement, signed.keyId, signed.signature],
      dryRun: false,
    });
    output.document({ approval_id, effect_id: effect.effect_id, key_id: signed.keyId });
    const by = effect.keys.find(({ key_id }) => key_id === signed.keyId)?.approver ?? signed.keyId;
    output.line(cleanText(`approved ${calledBy(effect)} as ${by}: approval ${shortId(approval_id)}`));
    return EXIT.done;
  });
}

async function signHere(
  connected: Connected,
  output: Output,
  { effect_id }: AwaitingApproval,
  file: string,
): Promise<Signed> {
  const signer = await readSigner(file);
  const { bytes } = await showStatement(connected, output, effect_id);
  return { statement: bytes, signature: signer.sign(bytes), keyId: signer.keyId };
}

async function signedElsewhere(
  { effect_id, keys }: AwaitingApproval,
  statementFile: string,
  signatureFile: string,
  keyId: string,
): Promise<Signed> {
  const statement = await readBytes(statementFile, STATEMENT_BYTES_MAX);
  const signature = await readBytes(signatureFile, KEPT_SIGNATURE_MAX);
  if (signature.length !== SIGNATURE_BYTES) {
    throw new LedgerError("signature_invalid", `the signature has ${signature.length} bytes`, {
      hint: "an Ed25519 signature has 64: openssl pkeyutl -sign -rawin -inkey key.pem -in statement -out signature",
    });
  }
  const about = readStatement(statement)?.effect;
  if (about !== undefined && about !== effect_id) {
    throw new LedgerError("statement_differs", `the statement is about effect ${about}, not ${effect_id}`, {
      hint: "name the effect that was signed for, or give its own statement",
      effectId: effect_id,
    });
  }
  return { statement, signature, keyId: keyNamed(keys, keyId) };
}

/** Enough to say how long a wrong one is. */
const KEPT_SIGNATURE_MAX = 1_024;

/** A key's id by its id, the last eight digits of it, or its person; what matches none is the ledger's to refuse. */
function keyNamed(keys: readonly SigningKey[], given: string): string {
  const meant = keys.filter(
    ({ key_id, approver }) => key_id === given || shortId(key_id) === given || approver === given,
  );
  if (meant.length <= 1) return meant[0]?.key_id ?? given;
  throw new LedgerError("usage_invalid", `${given} has ${meant.length} keys`, {
    hint: `give the id of the one that signed: ${meant.map(({ key_id }) => key_id).join(", ")}`,
  });
}

/**
 * The database cannot check a signature, so a wrong one would be kept and never count.
 * @throws LedgerError `signature_wrong`
 */
function checkSignature(keys: readonly SigningKey[], { statement, signature, keyId }: Signed): void {
  const key = keys.find(({ key_id }) => key_id === keyId);
  if (!key || isSignedBy(Buffer.from(key.public_key, "hex"), statement, signature)) return; // the ledger refuses a stranger's
  throw new LedgerError("signature_wrong", `the signature is not ${key.approver}'s over these bytes (key ${keyId})`, {
    hint: "nothing was submitted: sign the statement's bytes as they are, without hashing them first, and change none of them",
  });
}
