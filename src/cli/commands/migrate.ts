/** `migrate`: brings a database to this version and founds its ledger. */
import type { Command } from "commander";
import { notBuilt } from "../../core/error.ts";
import { conclude, withExamples } from "../action.ts";
import { connectionStringOf, type GlobalFlags, ledgerNameOf } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import type { Output } from "../output.ts";

interface MigrateFlags {
  readonly roles?: string;
}

export function addMigrate(program: Command): void {
  const command = program
    .command("migrate")
    .summary("bring a database to this version, and found its ledger")
    .description(
      "Bring a database to this version, and found its ledger where it has none: under --ledger, else `default`. " +
        "Each migration is a transaction of its own; what is applied already is checked and left alone.",
    )
    .option("--roles <how>", "create roles of least privilege: not built yet, refused")
    .action((_flags: MigrateFlags, self: Command) => conclude<MigrateFlags>(self, run));
  withExamples(command, ["migrate --ledger shop", "migrate --database postgres://owner@db.internal/shop"]);
}

async function run(output: Output, flags: MigrateFlags & GlobalFlags): Promise<ExitCode> {
  const connectionString = connectionStringOf(flags);
  const name = ledgerNameOf(flags);
  if (flags.roles !== undefined) throw notBuilt("migrate --roles");
  const { migrate } = await import("../../store/migrate.ts"); // it brings the queue with it
  const { applied, ledger } = await migrate({ connectionString, ...(name ? { ledger: name } : {}) });
  output.document({ ledger, applied });
  for (const migration of applied) output.line(`applied  ${migration}`);
  output.line(`${ledger}  ${applied.length === 0 ? "up to date, nothing to apply" : "ready"}`);
  return EXIT.done;
}
