/** `operation allow` and `operation protect`: which implementation an owner has reviewed, and what wants a policy from now on. */
import type { Command } from "commander";
import { cleanText } from "../../core/text.ts";
import { listOperations } from "../../store/audit-control.ts";
import { ALLOW_OPERATION, PROTECT_OPERATION } from "../../store/authority.ts";
import { runChange } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, change, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";

interface AllowFlags {
  readonly implementation?: string;
  readonly reason: string;
}

/** What effects.allow_operation returns. */
interface AllowedRow {
  readonly operation: string;
  readonly version: number;
  readonly implementation: string;
  readonly release: string;
  readonly protected: boolean;
}

/** A Postgres integer. */
export const VERSION_MAX = 2_147_483_647;

/** Far above what one ledger has. */
const OPERATIONS_MAX = 1_000;

export function addOperationAllow(operation: Command): void {
  const allow = operation
    .command("allow")
    .summary("allow the implementation that is registered now")
    .description(
      "Allow the implementation of a version that is registered now: a protected operation's effects are admitted for it " +
        "alone, and for the one allowed before no more. With --implementation it is refused where another one is registered.",
    )
    .argument("<operation>", "its name")
    .argument("<version>", "the version, as `operation list` shows it", wholeNumber(1, VERSION_MAX))
    .option("--implementation <digest>", "the one that was reviewed: its digest, or at least the first 12 digits")
    .requiredOption("--reason <reason>", "why, for whoever reads the history: 1 to 500 characters")
    .action((name: string, version: number, _flags: AllowFlags, self: Command) =>
      conclude<AllowFlags>(self, (output, flags) => runAllow(output, flags, name, version)),
    );
  withExamples(allow, ["operation allow charge_card 1 --implementation 4f2c1a77b03d --reason 'reviewed by ana'"]);
}

export function addOperationProtect(operation: Command): void {
  const protect = operation
    .command("protect")
    .summary("want a policy for every effect of it, from now on")
    .description(
      "Protect an operation, in every version: from now on each of its effects wants an allowed implementation, a policy " +
        "that covers it, and a budget for each unit that it costs. There is no way back. Allow an implementation and add a " +
        "policy first where effects of it wait.",
    )
    .argument("<operation>", "its name")
    .action((name: string, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) =>
        change(output, flags, {
          text: PROTECT_OPERATION,
          values: [name, flags.reason],
          done: `protected operation ${name}, for good`,
          wouldBe: `operation ${name} would be protected, for good`,
          whatWaits: "declined where no implementation is allowed, no policy covers it, or a unit has no budget",
        }),
      ),
    );
  withChangeOptions(protect);
  withExamples(protect, ["operation protect charge_card --reason 'it moves money' --dry-run"]);
}

async function runAllow(
  output: Output,
  flags: AllowFlags & GlobalFlags,
  name: string,
  version: number,
): Promise<ExitCode> {
  return withAudit(flags, async ({ audit, connectionString }) => {
    let digest = flags.implementation ?? null;
    if (digest !== null && /^[0-9a-f]{12,63}$/.test(digest)) {
      const registered = (await listOperations(audit, OPERATIONS_MAX)).find(
        (each) => each.operation === name && each.version === version,
      );
      // Another beginning is passed on as it is: the ledger refuses it, and says which one is registered.
      if (registered?.implementation.startsWith(digest)) digest = registered.implementation;
    }
    const values = [name, version, flags.reason, digest];
    const { result } = await runChange<{ result: AllowedRow }>(connectionString, {
      text: ALLOW_OPERATION,
      values,
      dryRun: false,
    });
    output.document(result);
    output.line(cleanText(`allowed operation ${name} ${version}, release ${result.release}`));
    output.line(`  implementation ${result.implementation}`);
    if (!result.protected) output.note(`it is not protected yet: pg-effects operation protect ${name} --reason …`);
    return EXIT.done;
  });
}
