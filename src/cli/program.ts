/** The whole command line: its commands and what they share. It parses; each command's file does its work. */
import { existsSync, readFileSync } from "node:fs";
import { Command, Option } from "commander";
import { addAcceptRisk } from "./commands/accept-risk.ts";
import { addActor } from "./commands/actor.ts";
import { addApply } from "./commands/apply.ts";
import { addApproval } from "./commands/approval.ts";
import { addApprover } from "./commands/approver.ts";
import { addAudit } from "./commands/audit.ts";
import { addBudget } from "./commands/budget.ts";
import { addCancel } from "./commands/cancel.ts";
import { addDemo } from "./commands/demo.ts";
import { addDenials } from "./commands/denials.ts";
import { addDev } from "./commands/dev.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addEnqueue } from "./commands/enqueue.ts";
import { addEvidence } from "./commands/evidence.ts";
import { addExplain } from "./commands/explain.ts";
import { addFind } from "./commands/find.ts";
import { addFollow } from "./commands/follow.ts";
import { addHistory } from "./commands/history.ts";
import { addLedger } from "./commands/ledger.ts";
import { addList } from "./commands/list.ts";
import { addMigrate } from "./commands/migrate.ts";
import { addOperation } from "./commands/operation.ts";
import { addPause, addResume } from "./commands/pause.ts";
import { addPolicy } from "./commands/policy.ts";
import { addReconcile } from "./commands/reconcile.ts";
import { addReconciliation } from "./commands/reconciliation.ts";
import { addRecovery } from "./commands/recovery.ts";
import { addResolve } from "./commands/resolve.ts";
import { addShow } from "./commands/show.ts";
import { addSource } from "./commands/source.ts";
import { addStatus } from "./commands/status.ts";
import { addTask } from "./commands/task.ts";
import { addUnresolved } from "./commands/unresolved.ts";
import { addWorker } from "./commands/worker.ts";
import { EXIT_CODES_HELP } from "./exit-code.ts";
import { addNotBuilt } from "./not-built.ts";

/** A program that throws instead of exiting, and writes help to stdout and nothing else. */
export function createProgram(): Command {
  const program = new Command("pg-effects")
    .description(
      "Consequential actions in other systems: recorded before they run, run at most once, and honest about " +
        "what nobody knows.",
    )
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show this help")
    .helpCommand(false)
    .addOption(
      new Option("--database <url>", "the ledger's database, as postgres://user:password@host:port/name").env(
        "DATABASE_URL",
      ),
    )
    .addOption(
      new Option("--ledger <name>", "the ledger that is meant; another one there is refused").env("PG_EFFECTS_LEDGER"),
    )
    .option("--json", 'print JSON on stdout: one document, or one line an event; errors too, as {"error": …}')
    .option("--debug", "add stack traces to errors (also: PG_EFFECTS_DEBUG=1)")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ outputError: () => {} }) // errors are reported once, by failure.ts
    .exitOverride()
    .showSuggestionAfterError()
    .addHelpText(
      "after",
      `\n${EXIT_CODES_HELP}\n\nEach command shows its own options and an example: pg-effects reconcile --help`,
    );
  for (const add of [
    addDemo,
    addDev,
    addMigrate,
    addWorker,
    addDoctor,
    addStatus,
    addEnqueue,
    addCancel,
    addFollow,
    addFind,
    addShow,
    addList,
    addExplain,
    addUnresolved,
    addReconcile,
    addReconciliation,
    addResolve,
    addAcceptRisk,
    addEvidence,
    addSource,
    addPause,
    addResume,
    addTask,
    addBudget,
    addOperation,
    addPolicy,
    addApproval,
    addApprover,
    addApply,
    addLedger,
    addActor,
    addDenials,
    addHistory,
    addRecovery,
    addAudit,
    addNotBuilt,
  ])
    add(program);
  return program;
}

/** This package's version, from the package.json above src, or above dist when built. */
function packageVersion(): string {
  for (const above of ["../../", "../../../"]) {
    const file = new URL(`${above}package.json`, import.meta.url);
    if (existsSync(file)) return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
  }
  return "unknown";
}
