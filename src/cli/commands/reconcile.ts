/** `reconcile`: asks the recipients about what is in doubt, once, until a deadline, and watches how far it gets. */
import { type Command, Option } from "commander";
import { LedgerError } from "../../core/error.ts";
import { readLedger } from "../../store/audit-ledger.ts";
import { conclude, withExamples } from "../action.ts";
import { closureOf } from "../closure.ts";
import { type Connected, type GlobalFlags, withLedger } from "../connection.ts";
import { DURATION_MS_MAX, parseAge, parseDuration } from "../duration.ts";
import type { ExitCode } from "../exit-code.ts";
import { findEffect } from "../find-effect.ts";
import { parseMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { watching } from "../watch.ts";
import { FAIL_ON, type FailOn, watchReconciliation } from "../watch-reconciliation.ts";

interface ReconcileFlags {
  readonly all?: true;
  readonly effect?: string;
  readonly task?: string;
  readonly operation?: string;
  readonly since?: string;
  readonly olderThan?: number;
  readonly deadline: number;
  readonly allowFence?: true;
  readonly allowResubmit?: true;
  readonly includeUncertain?: true;
  readonly confirmCount?: number;
  readonly failOn: FailOn;
}

/** A shorter one has passed before a worker has heard of it. */
const DEADLINE_MS_MIN = 1_000;

export function addReconcile(program: Command): void {
  const command = program
    .command("reconcile")
    .summary("ask the recipients about what is in doubt")
    .description(
      "Ask the recipients about what is unresolved, once, until a deadline that nobody extends. A worker does it; " +
        "this command watches, and Ctrl-C ends the watching only (reconciliation show). Nothing is sent again by asking, " +
        "unless --allow-resubmit says so. Typed or scheduled, it fails by default only on what became uncertain in this very run.",
    )
    .option("--all", "everything that is unresolved")
    .option("--effect <effect>", "one effect: id, short id, name, task:name, key or reference")
    .option("--task <name>", "what was requested under this task and the tasks below it")
    .option("--operation <name>", "what is of this operation")
    .option("--since <moment>", "only what is unresolved since then: 2026-11-30T02:00Z, 02:00, or 2h for two hours ago")
    .option("--older-than <duration>", "only what is unresolved for longer: 10m", parseAge)
    .requiredOption("--deadline <duration>", "for how long it may ask: 90s, 15m; up to 24h", (text) =>
      parseDuration(text, DURATION_MS_MAX, DEADLINE_MS_MIN),
    )
    .option(
      "--include-uncertain",
      "also ask about what was asked about and stayed uncertain; what that finds is a resolution",
    )
    .option("--allow-fence", "may write a void mark at the recipient, so that a late dispatch is refused there")
    .option(
      "--allow-resubmit",
      "may send the same key and bytes once more, where the contract proves that harmless; it may be what makes it happen",
    )
    .option(
      "--confirm-count <n>",
      "with --allow-fence or --allow-resubmit over several effects: how many are meant",
      wholeNumber(1, 1_000_000),
    )
    .addOption(
      new Option(
        "--fail-on <what>",
        "exit 3 for: new, what became uncertain in this run; any, what of the scope is unresolved afterwards; none",
      )
        .choices(FAIL_ON)
        .default("new"),
    )
    .action((_flags: ReconcileFlags, self: Command) => conclude<ReconcileFlags>(self, run));
  withExamples(command, [
    "reconcile --all --deadline 15m",
    "reconcile --operation charge_card --since 02:00 --deadline 15m --fail-on any",
    "reconcile --effect order/42/charge --deadline 1m --allow-fence",
    "reconcile --task customers/42 --deadline 5m --include-uncertain",
  ]);
}

async function run(output: Output, flags: ReconcileFlags & GlobalFlags): Promise<ExitCode> {
  const { all, task, operation, since, olderThan, deadline, confirmCount } = flags;
  const { includeUncertain, allowFence, allowResubmit } = flags;
  if (confirmCount !== undefined && !allowFence && !allowResubmit) {
    throw new LedgerError(
      "usage_invalid",
      "--confirm-count confirms nothing without --allow-fence or --allow-resubmit",
      {
        hint: "a lookup over many effects wants no count: leave it out, or add what it is to allow",
      },
    );
  }
  const from = since === undefined ? undefined : parseMoment(since, "past");
  return withLedger(flags, async (connected) => {
    await refuseClosed(connected);
    const effect = flags.effect === undefined ? undefined : (await findEffect(connected.audit, flags.effect)).effect_id;
    return watching(async (signal) => {
      const id = await connected.ledger.reconcile({
        deadlineMs: deadline,
        ...(all ? { all } : {}),
        ...(effect === undefined ? {} : { effect }),
        ...(task === undefined ? {} : { task }),
        ...(operation === undefined ? {} : { operation }),
        ...(from === undefined ? {} : { since: from }),
        ...(olderThan === undefined ? {} : { olderThanMs: olderThan }),
        ...(includeUncertain ? { includeUncertain } : {}),
        ...(allowFence ? { allowFence } : {}),
        ...(allowResubmit ? { allowResubmit } : {}),
        ...(confirmCount === undefined ? {} : { confirmCount }),
      });
      return watchReconciliation(connected.audit, output, id, { failOn: flags.failOn, signal });
    });
  });
}

/** On a closed ledger nothing is inspected: a request would only use up its deadline. */
async function refuseClosed(connected: Connected): Promise<void> {
  const closure = closureOf(await readLedger(connected));
  if (closure === null || closure.code === "durability_missing") return;
  throw new LedgerError(closure.code, closure.message, { hint: closure.hint });
}
