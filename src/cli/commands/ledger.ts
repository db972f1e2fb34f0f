/** `ledger show` and `ledger set`: which ledger this is, and what its owner decided about it as a whole. */
import { type Command, Option } from "commander";
import { cleanText } from "../../core/text.ts";
import { readClock } from "../../store/audit.ts";
import { listOperations } from "../../store/audit-control.ts";
import { type LedgerRules, readLedgerRules } from "../../store/audit-policy.ts";
import { SET_LEDGER } from "../../store/authority.ts";
import { runChange } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, withChangeOptions } from "../change.ts";
import { closureOf } from "../closure.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { formatMoment } from "../moment.ts";
import type { Output } from "../output.ts";
import { tableLines } from "../table.ts";

interface SetFlags extends ChangeFlags {
  readonly strict: "on" | "off";
}

export function addLedger(program: Command): void {
  const ledger = program
    .command("ledger")
    .helpCommand(false)
    .summary("which ledger this is, and whether it is strict")
    .description(
      "The ledger as a whole: what it is called, where it was written, and whether every operation is protected.",
    );
  const show = ledger
    .command("show")
    .summary("its name, id, recovery epoch, strictness and roles")
    .description("Which ledger this is. Exit code 6 where it is closed.")
    .action((_flags: object, self: Command) => conclude<object>(self, runShow));
  const set = ledger
    .command("set")
    .summary("make it strict, or not")
    .description(
      "Make the ledger strict: every operation is protected, actors are registered by the owner alone, and a worker refuses " +
        "to start beside a task file that is no operation. Turned off, each operation is protected as it was.",
    )
    .addOption(
      new Option("--strict <on|off>", "whether every operation is protected")
        .choices(["on", "off"])
        .makeOptionMandatory(),
    )
    .action((_flags: SetFlags, self: Command) => conclude<SetFlags>(self, runSet));
  withChangeOptions(set);
  withExamples(ledger, ["ledger show", "ledger set --strict on --reason 'no unreviewed adapter' --dry-run"]);
  withExamples(show, ["ledger show --json"]);
  withExamples(set, ["ledger set --strict on --reason 'no unreviewed adapter' --dry-run"]);
}

async function runShow(output: Output, flags: GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const rules = await readLedgerRules(audit);
    output.document(rules);
    for (const line of tableLines(FACTS, factsOf(rules, await readClock(audit)))) output.line(line);
    return closureOf(rules) ? EXIT.closed : EXIT.done;
  });
}

type Fact = readonly [what: string, is: string];
const FACTS = [
  { title: "", cell: ([what]: Fact) => what },
  { title: "", cell: ([, is]: Fact) => is },
];

function factsOf(rules: LedgerRules, now: Date): readonly Fact[] {
  const { name, ledger_id, recovery_epoch, strict, role_prefix, founded_at } = rules;
  const closure = closureOf(rules);
  return [
    ["ledger", name],
    ["id", ledger_id],
    ["epoch", recovery_epoch],
    ["founded", formatMoment(founded_at, now)],
    ["strict", strict ? "on: every operation is protected" : "off"],
    ["roles", role_prefix === null ? "none: its owner does everything" : `${role_prefix}…`],
    ["standing", closure === null ? "open" : `closed (${closure.code}): ${closure.message}`],
  ];
}

/** Far above what one ledger has. */
const OPERATIONS_MAX = 1_000;

async function runSet(output: Output, flags: SetFlags & GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ audit, connectionString }) => {
    const dryRun = flags.dryRun === true;
    const strict = flags.strict === "on";
    const values = [strict, flags.reason];
    const { result } = await runChange<{ result: { readonly ledger: string; readonly strict: boolean } }>(
      connectionString,
      { text: SET_LEDGER, values, dryRun },
    );
    const operations = strict ? await listOperations(audit, OPERATIONS_MAX) : [];
    const notAllowed = operations
      .filter(({ allowed_at, withdrawn_at }) => allowed_at === null && withdrawn_at === null)
      .map(({ operation, version }) => `${operation} ${version}`);
    output.document({ dry_run: dryRun, ...result, not_allowed: notAllowed });
    const is = strict ? "strict" : "not strict";
    output.line(
      cleanText(
        dryRun ? `ledger ${result.ledger} would be ${is}; nothing is changed` : `ledger ${result.ledger} is ${is}`,
      ),
    );
    if (notAllowed.length > 0) {
      output.note(`not allowed, so nothing of them is admitted: ${notAllowed.join(", ")}; pg-effects operation allow`);
    }
    return EXIT.done;
  });
}
