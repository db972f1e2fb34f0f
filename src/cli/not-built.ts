/** Commands that the design names and this version does not have: refused as not built, so that nobody looks for a typo. */
import type { Command } from "commander";
import { notBuilt } from "../core/error.ts";

const NOT_BUILT = ["init types", "collect"].join(" ").split(" ");

export function addNotBuilt(program: Command): void {
  addNotBuiltUnder(program, NOT_BUILT);
}

/** The same below a command that has others. */
export function addNotBuiltUnder(parent: Command, names: readonly string[]): void {
  const above = parent.parent ? `${parent.name()} ` : "";
  for (const name of names) {
    parent
      .command(name, { hidden: true })
      .allowUnknownOption()
      .allowExcessArguments()
      .action(() => {
        throw notBuilt(`the command ${above}${name}`);
      });
  }
}
