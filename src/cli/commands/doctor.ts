/** `doctor`: can this ledger work, and what would make it work better. It reads only. */
import type { Command } from "commander";
import { cleanText } from "../../core/text.ts";
import {
  countStrandedJobs,
  largestDispatchMs,
  readApplied,
  readLedger,
  readPredicateLocks,
  readViolations,
  readWorkers,
} from "../../store/audit-ledger.ts";
import { conclude, withExamples } from "../action.ts";
import {
  type Check,
  checkDurability,
  checkGrace,
  checkLedger,
  checkMigrations,
  checkPredicateLocks,
  checkQueue,
  checkViolations,
  checkWorkers,
} from "../checks.ts";
import { closureOf } from "../closure.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import type { Output } from "../output.ts";

/** Violations that are looked for: more than a handful say no more. */
const VIOLATIONS_MAX = 100;

export function addDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .summary("can this ledger work, and what would make it work better")
    .description(
      "Can this ledger work? Each line is ok, warn or no, with what to do. How full it is is not looked at: capacity is " +
        "not built yet. Exit code 6 when the ledger is closed, 1 when something else is broken, else 0.",
    )
    .action((_flags: object, self: Command) => conclude<object>(self, run));
  withExamples(command, ["doctor", "doctor --json"]);
}

async function run(output: Output, flags: GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async (connected) => {
    const { audit } = connected;
    const facts = await readLedger(connected);
    const { readMigrations } = await import("../../store/migrate.ts"); // it brings the queue with it
    const checks: readonly Check[] = [
      checkLedger(facts),
      checkDurability(facts),
      { check: "server", verdict: "ok", says: `Postgres ${facts.server_version}` }, // an older one was refused before
      checkMigrations(await readApplied(audit), await readMigrations()),
      checkPredicateLocks(await readPredicateLocks(audit)),
      checkWorkers(await readWorkers(audit)),
      checkQueue(await countStrandedJobs(audit)),
      checkGrace(await largestDispatchMs(audit)),
      checkViolations(await readViolations(audit, VIOLATIONS_MAX), VIOLATIONS_MAX),
    ];
    const closed = closureOf(facts) !== null;
    const broken = checks.some(({ verdict }) => verdict === "no");
    const exit = closed ? EXIT.closed : broken ? EXIT.fault : EXIT.done;
    output.document({ ledger: facts.name, closed, exit, checks });
    for (const check of checks) printCheck(output, check);
    return exit;
  });
}

function printCheck(output: Output, { check, verdict, says, advice }: Check): void {
  output.line(`${verdict.padEnd(4)}  ${check.padEnd(15)}  ${cleanText(says)}`);
  if (advice) output.line(`${" ".repeat(23)}${advice}`);
}
