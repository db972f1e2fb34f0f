/** `recovery show`, `close` and `acknowledge`: a ledger that may have lost a confirmed commit, and who says what it is now. */
import { type Command, Option } from "commander";
import { cleanText } from "../../core/text.ts";
import { readClock } from "../../store/audit.ts";
import { type ConcernedRow, runChange } from "../../store/control.ts";
import {
  ACKNOWLEDGE_RECOVERY,
  ACKNOWLEDGE_VIOLATION,
  CLOSE_LEDGER,
  CONFIRM_POLICY,
  listRecoveries,
  type RecoveryFacts,
  readRecovery,
} from "../../store/recovery.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, change, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { formatMoment } from "../moment.ts";
import type { Output } from "../output.ts";
import { tableLines } from "../table.ts";

const AS = ["copy", "lost-nothing", "possible-loss"] as const;
type As = (typeof AS)[number] | "violation";

export function addRecovery(program: Command): void {
  const recovery = program
    .command("recovery")
    .helpCommand(false)
    .summary("a ledger that was restored, copied or failed over")
    .description(
      "A ledger closes itself where its database may have lost a confirmed commit, or is another one. Its owner looks, and says " +
        "what it is now.",
    );
  withExamples(recovery, [
    "recovery show",
    "recovery acknowledge --as possible-loss --reason 'restored from backup' --dry-run",
  ]);
  const show = recovery
    .command("show")
    .summary("is this database the ledger it was?")
    .description(
      "Where the ledger was written, where it is now, and what an acknowledgement would meet. Exit code 6 where it is closed.",
    )
    .action((_flags: object, self: Command) => conclude<object>(self, runShow));
  withExamples(show, ["recovery show --json"]);
  addClose(recovery);
  addAcknowledge(recovery);
  addConfirm(recovery);
}

function addClose(recovery: Command): void {
  const close = recovery
    .command("close")
    .summary("set the close marker, before a planned switchover")
    .description(
      "Admit nothing more until the owner acknowledges. Set before a planned switchover or upgrade it is what allows `lost-nothing` " +
        "afterwards. Requests are still taken; wait until nothing is in flight.",
    )
    .action((_flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) =>
        change(output, flags, {
          text: CLOSE_LEDGER,
          values: [flags.reason],
          done: "closed the ledger: nothing is admitted until `recovery acknowledge`",
          wouldBe: "the ledger would be closed",
          whatWaits: "and goes on waiting",
        }),
      ),
    );
  withChangeOptions(close);
  withExamples(close, ["recovery close --reason 'switchover at noon'"]);
}

interface AcknowledgeFlags extends ChangeFlags {
  readonly as: As;
}

function addAcknowledge(recovery: Command): void {
  const acknowledge = recovery
    .command("acknowledge")
    .summary("say what a closed ledger is now")
    .description(
      "copy: another ledger now; a new id, all authority void, effects of the former one only for reading. lost-nothing: only " +
        "behind a close marker, or where every process has found its last confirmed admission. possible-loss: whatever waits is " +
        "presumed sent and unresolved, policies and budgets are suspended until they are confirmed. violation: what " +
        "`audit verify` found is understood.",
    )
    .addOption(new Option("--as <what>", "what it is").choices([...AS, "violation"]).makeOptionMandatory())
    .action((_flags: AcknowledgeFlags, self: Command) => conclude<AcknowledgeFlags>(self, runAcknowledge));
  withChangeOptions(acknowledge);
  withExamples(acknowledge, ["recovery acknowledge --as possible-loss --reason 'restored from backup' --dry-run"]);
}

function addConfirm(recovery: Command): void {
  const confirm = recovery
    .command("confirm")
    .summary("let a policy stand again")
    .description("Let a policy stand again that a possible loss suspended. A budget is confirmed by `budget set`.")
    .argument("<policy>", "its name, as `policy list` shows it")
    .requiredOption("--reason <reason>", "why, for whoever reads the history: 1 to 500 characters")
    .action((name: string, _flags: { readonly reason: string }, self: Command) =>
      conclude<{ readonly reason: string }>(self, (output, flags) =>
        withAudit(flags, async ({ connectionString }) => {
          await runChange(connectionString, { text: CONFIRM_POLICY, values: [name, flags.reason], dryRun: false });
          output.document({ policy: name, confirmed: true });
          output.line(cleanText(`policy ${name} stands`));
          return EXIT.done;
        }),
      ),
    );
  withExamples(confirm, ["recovery confirm charges --reason 'looked at, INC-91'"]);
}

async function runAcknowledge(output: Output, flags: AcknowledgeFlags & GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ connectionString }) => {
    const dryRun = flags.dryRun === true;
    if (flags.as === "violation") {
      await runChange(connectionString, { text: ACKNOWLEDGE_VIOLATION, values: [flags.reason], dryRun });
      output.document({ dry_run: dryRun, acknowledged: "violation" });
      output.line(
        dryRun ? "the violation would be acknowledged; nothing is changed" : "acknowledged: admission is open again",
      );
      return EXIT.done;
    }
    const { result } = await runChange<{ result: ConcernedRow & { readonly effects: number; readonly epoch: string } }>(
      connectionString,
      { text: ACKNOWLEDGE_RECOVERY, values: [flags.as, flags.reason], dryRun },
    );
    output.document({ dry_run: dryRun, ...result });
    output.line(dryRun ? `as ${flags.as} it would be open; nothing is changed` : `acknowledged as ${flags.as}`);
    if (result.effects > 0) {
      output.line(
        `  ${result.effects} effects that waited are presumed sent, and unresolved: pg-effects reconcile --all --deadline 15m`,
      );
    }
    if (flags.as === "possible-loss") {
      output.line(
        "  policies and budgets are suspended: pg-effects recovery confirm POLICY, pg-effects budget set TASK UNIT=LIMIT",
      );
    }
    return EXIT.done;
  });
}

type Fact = readonly [what: string, is: string];
const FACTS = [
  { title: "", cell: ([what]: Fact) => what },
  { title: "", cell: ([, is]: Fact) => is },
];

async function runShow(output: Output, flags: GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const facts = await readRecovery(audit);
    const earlier = await listRecoveries(audit);
    output.document({ ...facts, recoveries: earlier });
    const now = await readClock(audit);
    for (const line of tableLines(FACTS, factsOf(facts, now))) output.line(line);
    for (const { acknowledged_at, acknowledged_by, commits, reason } of earlier) {
      output.line(
        cleanText(`earlier  ${formatMoment(acknowledged_at, now)} by ${acknowledged_by} as ${commits}: ${reason}`),
      );
    }
    return facts.gap === null && facts.violated_at === null ? EXIT.done : EXIT.closed;
  });
}

const GAPS: Readonly<Record<string, string>> = {
  standby: "this server is a standby: connect to the primary",
  another_server: "another server than the ledger was written on: a restore or a copy",
  another_database: "another database of the same server: a copy",
  another_timeline: "the same server on another timeline: it was promoted or recovered",
  written_again: "its identity was written again: dumped and restored, or edited by hand",
  admission_lost: "an admission that was confirmed to a process is gone",
  closed: "closed by its owner, for a planned switchover or upgrade",
};

function factsOf(facts: RecoveryFacts, now: Date): readonly Fact[] {
  const { gap, written, now: here } = facts;
  const place = ({ system_identifier, timeline, database_oid }: RecoveryFacts["written"]) =>
    `server ${system_identifier}, timeline ${timeline ?? "unknown"}, database ${database_oid}`;
  return [
    ["standing", gap === null ? "open: this database is the ledger it was" : `closed: ${GAPS[gap] ?? gap}`],
    ...(facts.violated_at === null
      ? []
      : ([["violation", `found ${formatMoment(facts.violated_at, now)}: select * from audit.violations`]] as const)),
    ["written on", place(written)],
    ["is on", place(here)],
    ["close marker", facts.closed_at === null ? "none" : formatMoment(facts.closed_at, now)],
    ["waiting", `${facts.waiting}, presumed sent by possible-loss`],
    ["open", `${facts.open}, as they are`],
    ["processes", `${facts.unconfirmed_workers} have not found their last confirmed admission here`],
  ];
}
