/** `audit verify` and `audit checkpoint`: is the record whole, and a signature that makes a deletion visible. */
import type { Command } from "commander";
import { isSignedBy } from "../../core/approval.ts";
import { keyIdOf } from "../../core/approver-key.ts";
import { LedgerError } from "../../core/error.ts";
import { cleanText } from "../../core/text.ts";
import { readViolations } from "../../store/audit-ledger.ts";
import { runChange } from "../../store/control.ts";
import {
  MAKE_CHECKPOINT,
  REPORT_VIOLATION,
  readSigned,
  SIGN_CHECKPOINT,
  type SignedRow,
} from "../../store/recovery.ts";
import { conclude, withExamples } from "../action.ts";
import { type Connected, type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { readPublicKey, readSigner } from "../key-option.ts";
import type { Output } from "../output.ts";
import { shortId } from "../short-id.ts";

/** More are counted and not printed. */
const SHOWN_MAX = 100;

interface VerifyFlags {
  readonly publicKey?: readonly string[];
  readonly reportOnly?: true;
}

/** Something that does not hold. */
interface Finding {
  readonly violation: string;
  readonly effect_id: string | null;
  readonly object: string;
  readonly detail: string;
}

export function addAudit(program: Command): void {
  const audit = program
    .command("audit")
    .helpCommand(false)
    .summary("is the record whole?")
    .description("Checks of the whole record, and checkpoints that make a deletion visible.");
  withExamples(audit, ["audit verify --public-key auditor.pub.pem", "audit checkpoint --key auditor.pem"]);
  const verify = audit
    .command("verify")
    .summary("digests, chains, sums, checkpoints and signatures")
    .description(
      "Recompute every digest, chain, sum and checkpoint, and verify every signature. What an operator or the owner finds closes " +
        "admission until the owner acknowledges it; an auditor's run only reports. Exit code 1 where something does not hold.",
    )
    .option("--public-key <file...>", "keys of checkpoints: what `openssl pkey -pubout` writes, or 64 hex digits")
    .option("--report-only", "report, and close nothing")
    .action((_flags: VerifyFlags, self: Command) => conclude<VerifyFlags>(self, runVerify));
  withExamples(verify, ["audit verify --public-key auditor.pub.pem", "audit verify --report-only --json"]);
  const checkpoint = audit
    .command("checkpoint")
    .summary("sign what changed since the last one")
    .description(
      "Make a checkpoint over what changed since the last one, and sign it with a key that the database never holds. Keep the " +
        "public key, and the printed root, somewhere else.",
    )
    .requiredOption("--key <file>", "an Ed25519 private key, as `openssl genpkey -algorithm ed25519` writes it")
    .action((_flags: { readonly key: string }, self: Command) =>
      conclude<{ readonly key: string }>(self, runCheckpoint),
    );
  withExamples(checkpoint, ["audit checkpoint --key auditor.pem"]);
}

async function runVerify(output: Output, flags: VerifyFlags & GlobalFlags): Promise<ExitCode> {
  const given = await Promise.all((flags.publicKey ?? []).map(readPublicKey));
  const keys = new Map(given.map((hex) => [keyIdOf(Buffer.from(hex, "hex")), Buffer.from(hex, "hex")]));
  return withAudit(flags, async (connected) => {
    const violations = await readViolations(connected.audit, SHOWN_MAX);
    if (violations === null) {
      throw new LedgerError("verification_unfinished", "the record is too large to be recomputed within 30 seconds", {
        hint: "read the view audit.violations without a timeout",
      });
    }
    const signatures = await verifySignatures(output, connected, keys);
    const found: readonly Finding[] = [...violations, ...signatures.wrong];
    const closed = found.length > 0 && flags.reportOnly !== true ? await reportFound(output, connected, found) : false;
    output.document({ violations: found, signatures: signatures.verified, unverified: signatures.unverified, closed });
    for (const { violation, effect_id, object, detail } of found) {
      output.line(cleanText(`${violation}: ${effect_id ? `effect ${shortId(effect_id)}, ` : ""}${object}: ${detail}`));
    }
    output.line(
      `${found.length === 0 ? "the record is whole" : `${found.length} things do not hold`}; ${signatures.verified} signatures verified`,
    );
    if (signatures.unverified > 0) {
      output.note(`${signatures.unverified} checkpoints are signed by keys that were not given: --public-key FILE`);
    }
    if (closed)
      output.note("admission is closed until the owner acknowledges: pg-effects recovery acknowledge --as violation");
    return found.length === 0 ? EXIT.done : EXIT.fault;
  });
}

async function verifySignatures(output: Output, { audit }: Connected, keys: ReadonlyMap<string, Buffer>) {
  const wrong: Finding[] = [];
  let verified = 0;
  let unverified = 0;
  for await (const batch of readSigned(audit)) {
    for (const row of batch) {
      const key = row.public_key === null ? keys.get(row.key_id) : Buffer.from(row.public_key, "hex");
      if (!key) unverified += 1;
      else if (verifies(row, key)) verified += 1;
      else
        wrong.push({
          violation: "a signature is its key's",
          effect_id: row.effect_id,
          object: row.what,
          detail: "it does not verify",
        });
    }
    output.progress(`${verified} signatures verified`);
  }
  output.endProgress();
  return { wrong: wrong.slice(0, SHOWN_MAX), verified, unverified };
}

function verifies({ statement, signature }: SignedRow, key: Buffer): boolean {
  return isSignedBy(key, Buffer.from(statement, "hex"), Buffer.from(signature, "hex"));
}

/** True where admission is closed now. An auditor may not close it: he reports. */
async function reportFound(
  output: Output,
  { connectionString }: Connected,
  found: readonly Finding[],
): Promise<boolean> {
  const [first] = found;
  const words = cleanText(`${found.length} found; first: ${first?.violation}, ${first?.object}`, 500);
  try {
    await runChange(connectionString, { text: REPORT_VIOLATION, values: [words], dryRun: false });
    return true;
  } catch (error) {
    if (!(error instanceof LedgerError) || error.code !== "42501") throw error;
    output.note("this login may not close admission: tell an operator or the owner");
    return false;
  }
}

async function runCheckpoint(
  output: Output,
  { key, ...flags }: { readonly key: string } & GlobalFlags,
): Promise<ExitCode> {
  const signer = await readSigner(key);
  return withAudit(flags, async ({ connectionString }) => {
    const made = await runChange<{ checkpoint_id: bigint; statement: Buffer }>(connectionString, {
      text: MAKE_CHECKPOINT,
      values: [],
      dryRun: false,
    });
    await runChange(connectionString, {
      text: SIGN_CHECKPOINT,
      values: [made.checkpoint_id, signer.keyId, signer.sign(made.statement)],
      dryRun: false,
    });
    const said = JSON.parse(made.statement.toString("utf8").split("\n")[1] ?? "{}") as {
      root?: string;
      effects?: number;
    };
    output.document({
      checkpoint_id: String(made.checkpoint_id),
      key_id: signer.keyId,
      root: said.root,
      effects: said.effects,
    });
    output.line(
      `checkpoint ${made.checkpoint_id}  ${said.effects} effects moved  root ${said.root}  signed by ${signer.keyId}`,
    );
    return EXIT.done;
  });
}
