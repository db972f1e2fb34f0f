/** `approval statement`: the bytes that an approver signs, wherever the key is, and what they mean. */
import { writeFile } from "node:fs/promises";
import type { Command } from "commander";
import { LedgerError } from "../../core/error.ts";
import { type SeenStatement, seenStatement } from "../../core/seen-statement.ts";
import { readClock } from "../../store/audit.ts";
import { readStatementToSign } from "../../store/awaiting.ts";
import { conclude, withExamples } from "../action.ts";
import { type Connected, type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { AWAITING_HELP, findAwaitingEffect } from "../find-awaiting.ts";
import type { Output } from "../output.ts";
import { signedLines } from "../signed-words.ts";

interface StatementFlags {
  readonly out?: string;
}

export function addStatement(approval: Command): void {
  const statement = approval
    .command("statement")
    .summary("the bytes to sign, and what they mean")
    .description(
      "Write the bytes that an approver signs to a file, or to stdout when that is no terminal; what they mean goes to " +
        "stderr, read from the bound bytes, whose digest is recomputed first.",
    )
    .argument("<effect>", AWAITING_HELP)
    .option("--out <file>", "where to write them (default: stdout)")
    .action((given: string, _flags: StatementFlags, self: Command) =>
      conclude<StatementFlags>(self, (output, flags) => run(output, flags, given)),
    );
  withExamples(statement, [
    "approval statement order/43/charge --out statement\n" +
      "  openssl pkeyutl -sign -rawin -inkey ana.pem -in statement -out signature\n" +
      "  pg-effects approval approve order/43/charge --statement statement --signature signature --key-id 5a3f09c2",
  ]);
}

/** What is signed, checked and shown. */
export interface ToSign {
  readonly bytes: Buffer;
  readonly seen: SeenStatement;
}

/**
 * Makes the statement about an effect and shows on stderr what it means.
 * @throws LedgerError as `findAwaitingEffect` and `seenStatement` do
 */
export async function showStatement(connected: Connected, output: Output, given: string): Promise<ToSign> {
  const { effect_id } = await findAwaitingEffect(connected, given);
  const read = await readStatementToSign(connected.audit, effect_id);
  if (!read) {
    throw new LedgerError("approval_unwanted", `effect ${effect_id} was decided in this moment`, {
      hint: "pg-effects approval list shows what awaits approval",
      effectId: effect_id,
    });
  }
  const seen = seenStatement(read.statement, {
    effectId: effect_id,
    version: read.binding_version,
    bytes: read.binding,
  });
  const now = await readClock(connected.audit);
  for (const line of signedLines(seen, read, now)) output.note(line);
  return { bytes: read.statement, seen };
}

async function run(output: Output, { out, ...flags }: StatementFlags & GlobalFlags, given: string): Promise<ExitCode> {
  if (out === undefined && !output.json && process.stdout.isTTY) {
    throw new LedgerError("usage_invalid", "a statement is bytes, and stdout is a terminal", {
      hint: "give --out FILE, or pipe it on",
    });
  }
  return withAudit(flags, async (connected) => {
    const { bytes, seen } = await showStatement(connected, output, given);
    if (out !== undefined) await writeFile(out, bytes);
    else if (!output.json) process.stdout.write(bytes);
    output.document({
      effect_id: seen.statement.effect,
      statement: bytes.toString("hex"),
      digest: seen.statement.digest,
      expires_at: new Date(seen.statement.expiresAtMs),
      maximum_cost: seen.statement.maximumCost,
      preview: seen.binding.preview,
      target: seen.binding.target,
      account: seen.binding.account,
    });
    return EXIT.done;
  });
}
