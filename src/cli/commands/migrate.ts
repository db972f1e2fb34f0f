/** `migrate`: brings a database to this version, founds its ledger, and grants its roles what they may do. */
import { type Command, Option } from "commander";
import { LedgerError } from "../../core/error.ts";
import { ROLES } from "../../store/role-matrix.ts";
import { roleScript } from "../../store/role-script.ts";
import { checkPrefix, ROLE_MODES, type RoleMode } from "../../store/roles.ts";
import { conclude, withExamples } from "../action.ts";
import { connectionStringOf, type GlobalFlags, ledgerNameOf } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import type { Output } from "../output.ts";

interface MigrateFlags {
  readonly roles?: RoleMode;
  readonly rolePrefix?: string;
  readonly print?: true;
}

export function addMigrate(program: Command): void {
  const command = program
    .command("migrate")
    .summary("bring a database to this version, and found its ledger")
    .description(
      "Bring a database to this version, and found its ledger where it has none: under --ledger, else `default`. " +
        "Each migration is a transaction of its own; what is applied already is checked and left alone. A ledger that has " +
        "roles keeps them, and what is new is granted (docs/roles.md).",
    )
    .addOption(
      new Option(
        "--roles <how>",
        "roles of least privilege: create them, use existing ones, or none (default: what the ledger has, else single)",
      ).choices(ROLE_MODES),
    )
    .option(
      "--role-prefix <prefix>",
      "what their names begin with: roles belong to the whole cluster (default: effects_)",
    )
    .option("--print", "print the SQL for --roles, for a DBA to run after a plain migrate; it connects to nothing")
    .action((_flags: MigrateFlags, self: Command) => conclude<MigrateFlags>(self, run));
  withExamples(command, [
    "migrate --ledger shop",
    "migrate --ledger shop --roles create --role-prefix shop_",
    "migrate --roles create --role-prefix shop_ --print > roles.sql",
  ]);
}

async function run(output: Output, flags: MigrateFlags & GlobalFlags): Promise<ExitCode> {
  const { roles, rolePrefix } = flags;
  if (flags.print) return print(output, roles, rolePrefix);
  const connectionString = connectionStringOf(flags);
  const name = ledgerNameOf(flags);
  const { migrate } = await import("../../store/migrate.ts"); // it brings the queue with it
  const migrated = await migrate({
    connectionString,
    ...(name ? { ledger: name } : {}),
    ...(roles === undefined ? {} : { roles }),
    ...(rolePrefix === undefined ? {} : { rolePrefix }),
  });
  const { ledger, applied } = migrated;
  const names = migrated.rolePrefix === null ? null : ROLES.map((role) => `${migrated.rolePrefix}${role}`);
  output.document({ ledger, applied, roles: names });
  for (const migration of applied) output.line(`applied  ${migration}`);
  if (names) output.line(`roles    ${names.join(" ")}`);
  output.line(`${ledger}  ${applied.length === 0 ? "up to date, nothing to apply" : "ready"}`);
  return EXIT.done;
}

function print(output: Output, roles: RoleMode | undefined, rolePrefix: string | undefined): ExitCode {
  if (roles !== "create" && roles !== "existing") {
    throw new LedgerError("usage_invalid", "--print shows the SQL of roles, and no roles are named", {
      hint: "say --roles create, or --roles existing where somebody makes them",
    });
  }
  const sql = roleScript({ prefix: checkPrefix(rolePrefix), create: roles === "create" });
  output.document({ sql });
  output.line(sql.trimEnd());
  return EXIT.done;
}
