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
  return withLedger(flags, async ({ ledger, ...connected }) => {
    const closure = closureOf(await readLedger(connected));
    if (closure) log("warning", `the ledger is closed, nothing is admitted (${closure.code}): ${closure.message}`);
    const { runUntilSignal, startWorker } = await import("../run-worker.ts");
    const { tasks, concurrency, debug } = flags;
    const started = await startWorker(ledger, {
      tasks,
      concurrency,
      log,
      debug: debug === true || process.env.PG_EFFECTS_DEBUG === "1",
    });
    const { working, release, operations } = started;
    const stopped = runUntilSignal(started, log); // listens from here on: whoever reads that it is ready may stop it
    output.event({ event: "ready", worker: working.id, ledger: ledger.name, release, operations });
    output.line(`worker ${working.id}  ledger ${ledger.name}, release ${release}, operations ${operations.join(" ")}`);
    await stopped;
    return EXIT.done;
  });
}
