/**
 * The process of `dev`: an embedded server whose data stays, its ledger, and a worker, until a signal ends all three. The
 * password goes into a file of the user's own and never onto a terminal.
 */
import { chmod, writeFile } from "node:fs/promises";
import { basename, join, relative, resolve } from "node:path";
import { openLedger } from "../ledger.ts";
import { type EmbeddedServer, startEmbedded } from "../postgres/embedded.ts";
import type { RunningOperation } from "../runtime.ts";
import { migrate } from "../store/migrate.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import type { Output } from "./output.ts";
import { strikeOutPasswords } from "./passwords.ts";
import { runUntilSignal, type StartedWorker, startWorker } from "./run-worker.ts";
import { sampleInput } from "./sample-input.ts";
import { shellWord } from "./shell-word.ts";
import { operationsIn } from "./task-folder.ts";
import { workerLog } from "./worker-log.ts";

export interface DevFlags {
  readonly folder: string;
  readonly port?: number;
  readonly tasks: string;
  readonly debug?: true;
}

/** Starts everything, says how to reach it, and runs until SIGINT or SIGTERM. */
export async function runDev(output: Output, flags: DevFlags): Promise<ExitCode> {
  const log = workerLog(output.json);
  const { operations } = await operationsIn(flags.tasks, log); // before a server is started for nothing
  const example = await exampleOf(operations);
  const server = await startEmbedded({
    dataDirectory: join(flags.folder, "data"),
    ...(flags.port === undefined ? {} : { port: flags.port }),
  });
  try {
    const { connectionString } = server;
    await migrate({ connectionString, ledger: "dev" });
    const file = await writeConnection(flags.folder, connectionString);
    const ledger = await openLedger({ connectionString, ledger: "dev", poolMax: 2 });
    try {
      const worker = await startWorker(ledger, { tasks: flags.tasks, log, debug: flags.debug === true });
      const stopped = runUntilSignal(worker, log, server.died); // whoever reads that it is ready may stop it
      announce(output, server, file, worker, example);
      await stopped;
    } finally {
      await ledger.close();
    }
  } finally {
    await server.stop();
  }
  return EXIT.done;
}

/** The connection string with its password goes into a file of the user's own, and never onto a terminal. */
async function writeConnection(folder: string, connectionString: string): Promise<string> {
  const file = join(folder, "connection");
  await writeFile(file, `${connectionString}\n`, { mode: 0o600 });
  await chmod(file, 0o600); // the mode above is for a new file only
  return file;
}

/** The arguments of an `enqueue` that can be typed as it is shown; an operation's schema may leave nothing to make up. */
async function exampleOf(operations: readonly RunningOperation[]): Promise<string> {
  for (const running of operations) {
    const sample = await sampleInput(running);
    if (sample !== null) return `${running.operation.definition.name} ${shellWord(JSON.stringify(sample))}`;
  }
  return `${operations[0]?.operation.definition.name ?? "OPERATION"} INPUT`;
}

function announce(output: Output, server: EmbeddedServer, file: string, worker: StartedWorker, example: string): void {
  const { working, release, operations } = worker;
  const address = strikeOutPasswords(server.connectionString);
  output.event({
    event: "ready",
    ledger: "dev",
    address,
    connection_file: file,
    data_directory: server.dataDirectory,
    port: server.port,
    worker: working.id,
    release,
    operations,
  });
  const us = invocation();
  output.line(`dev     ${address}, ledger dev, data in ${server.dataDirectory}`);
  output.line(`worker  ${working.id}, operations ${operations.join(" ")}`);
  output.line();
  output.line("in another terminal (the file holds the password and is yours alone):");
  output.line(`  export DATABASE_URL="$(cat ${shellWord(resolve(file))})"`);
  output.line(`  ${us} doctor`);
  output.line(`  ${us} enqueue ${example} --wait 10s   # made up from its schema, and really dispatched`);
  output.line(`  ${us} list`);
  output.line();
  output.line("Ctrl-C stops all of it");
}

/** How this program was called, so that the commands can be typed as they are shown. */
function invocation(): string {
  const program = process.argv[1] ?? "pg-effects";
  if (basename(program) === "pg-effects") return "pg-effects";
  const path = relative(process.cwd(), program);
  return `node ${path.startsWith("..") ? program : path}`;
}
