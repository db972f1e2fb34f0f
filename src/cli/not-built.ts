/** Commands that the design names and this version does not have: refused as not built, so that nobody looks for a typo. */
import type { Command } from "commander";
import { notBuilt } from "../core/error.ts";

const NOT_BUILT = [
  "init types apply status find explain denials history cancel follow pause resume reconciliation resolve accept-risk",
  "evidence approval approver actor operation task budget policy ledger source recovery collect audit",
]
  .join(" ")
  .split(" ");

export function addNotBuilt(program: Command): void {
  for (const name of NOT_BUILT) {
    program
      .command(name, { hidden: true })
      .allowUnknownOption()
      .allowExcessArguments()
      .action(() => {
        throw notBuilt(`the command ${name}`);
      });
  }
}
