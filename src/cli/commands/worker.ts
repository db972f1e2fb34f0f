/** `worker`: carries out effects until it is told to stop. */
import type { Command } from "commander";
import { readLedger } from "../../store/audit-ledger.ts";
import { conclude, withExamples } from "../action.ts";
import { closureOf } from "../closure.ts";
import { type GlobalFlags, withLedger } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { workerLog } from "../worker-log.ts";

interface WorkerFlags {
  readonly tasks: string;
  readonly concurrency?: number;
}

export function addWorker(program: Command): void {
  const command = program
    .command("worker")
    .summary("carry out effects until SIGTERM")
    .description(
      "Carry out effects until SIGTERM or SIGINT. It then admits nothing more, lets what is being dispatched use its " +
        "window, and exits 0; `doctor` says how long that may take. One line an event goes to stderr.",
    )
    .option("--tasks <dir>", "the folder of operations, one file each", "tasks")
    .option("--concurrency <n>", "effects under way at once (default: 20)", wholeNumber(1, 2_000))
    .action((_flags: WorkerFlags, self: Command) => conclude<WorkerFlags>(self, run));
  withExamples(command, ["worker", "worker --tasks operations --concurrency 50"]);
}

async function run(output: Output, flags: WorkerFlags & GlobalFlags): Promise<ExitCode> {
  const log = workerLog(output.json);
  return withLedger(flags, async ({ ledger, audit }) => {
    const closure = closureOf(await readLedger(audit));
    if (closure) log("warning", `the ledger is closed, nothing is admitted (${closure.code}): ${closure.message}`);
    const { runUntilSignal, startWorker } = await import("../run-worker.ts");
    const started = await startWorker(ledger, flags.tasks, log, flags.concurrency);
    const { working, release, operations } = started;
    output.event({ event: "ready", worker: working.id, ledger: ledger.name, release, operations });
    output.line(`worker ${working.id}  ledger ${ledger.name}, release ${release}, operations ${operations.join(" ")}`);
    await runUntilSignal(started, log);
    return EXIT.done;
  });
}
