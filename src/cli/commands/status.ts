/** `status`: is anything wrong, on one screen. */
import type { Command } from "commander";
import { cleanText } from "../../core/text.ts";
import { type Audit, readClock } from "../../store/audit.ts";
import { readLedger, readWorkers } from "../../store/audit-ledger.ts";
import { countOwed } from "../../store/audit-obligations.ts";
import { countEnded, countLive, countProtected, readPauses } from "../../store/audit-status.ts";
import { sumUnresolved } from "../../store/audit-unresolved.ts";
import { conclude, withExamples } from "../action.ts";
import { closureOf } from "../closure.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { isLive } from "../live-workers.ts";
import type { Output } from "../output.ts";
import { endedWords, operationLines, operationStatuses, owedWords, workerWords } from "../status-lines.ts";
import { pauseUnlessAborted, watching } from "../watch.ts";

interface StatusFlags {
  readonly watch?: true;
}

/** Between two looks, in milliseconds: slower than anybody reads, faster than a heartbeat is missed. */
const LOOK_AGAIN_MS = 2_000;

const HOUR_MS = 3_600_000;

/** Far above what one ledger has. */
const OPERATIONS_MAX = 1_000;

export function addStatus(program: Command): void {
  const command = program
    .command("status")
    .summary("is anything wrong, on one screen")
    .description(
      "Is anything wrong, on one screen: the ledger, its workers, what waits for what, what is in flight and in doubt by " +
        "operation, and what ended in the last hour. Exit code 3 where something is unresolved, 6 where the ledger is closed.",
    )
    .option("--watch", "look again every two seconds until Ctrl-C")
    .action((_flags: StatusFlags, self: Command) => conclude<StatusFlags>(self, run));
  withExamples(command, ["status", "status --watch", "status --json"]);
}

async function run(output: Output, flags: StatusFlags & GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    if (flags.watch !== true) {
      const status = await readStatus(audit);
      output.document(status);
      for (const line of statusLines(status)) output.line(cleanText(line));
      return status.exit;
    }
    return watching(async (signal) => {
      while (!signal.aborted) {
        const status = await readStatus(audit);
        output.event(status);
        output.screen(statusLines(status).map((line) => cleanText(line)));
        await pauseUnlessAborted(LOOK_AGAIN_MS, signal);
      }
      return EXIT.interrupted;
    });
  });
}

type Status = Awaited<ReturnType<typeof readStatus>>;

async function readStatus(audit: Audit) {
  const ledger = await readLedger({ audit, audits: true });
  const workers = await readWorkers(audit);
  const counted = {
    live: await countLive(audit),
    held: await sumUnresolved(audit, "operation", OPERATIONS_MAX),
    pauses: await readPauses(audit),
    workers: workers.filter(isLive),
  };
  const operations = operationStatuses(counted);
  const at = await readClock(audit);
  const unresolved = operations.reduce((sum, each) => sum + each.unresolved, 0n);
  const closed = closureOf(ledger);
  const exit = closed ? EXIT.closed : unresolved > 0n ? EXIT.unresolved : EXIT.done;
  return {
    at,
    ledger: ledger.name,
    ledger_id: ledger.ledger_id,
    closed,
    protected: await countProtected(audit),
    workers: counted.workers,
    silent_workers: workers.filter((worker) => !isLive(worker)),
    operations,
    cleanups: await countOwed(audit),
    last_hour: await countEnded(audit, new Date(at.getTime() - HOUR_MS)),
    unresolved,
    exit,
  };
}

function statusLines(status: Status): readonly string[] {
  const { ledger, closed, workers, silent_workers, operations, last_hour, unresolved, exit, at } = status;
  const fit = closed ? `ledger closed: ${closed.code}` : "ledger fit";
  const guarded = `protected ${status.protected.protected} of ${status.protected.of} operations`;
  const are = unresolved === 1n ? "1 effect is" : `${unresolved} effects are`;
  return [
    `${ledger}  ${fit}   ${guarded}   ${workerWords(workers, silent_workers)}`,
    ...operationLines(operations, at),
    `last hour   ${endedWords(last_hour)}`,
    ...(status.cleanups.owed > 0n ? [`cleanup     ${owedWords(status.cleanups, at)}`] : []),
    ...(closed ? [`exit ${exit}      ${closed.message}: ${closed.hint}`] : []),
    ...(unresolved > 0n
      ? [`${closed ? "           " : `exit ${exit}     `} ${are} unresolved: pg-effects unresolved`]
      : []),
  ];
}
