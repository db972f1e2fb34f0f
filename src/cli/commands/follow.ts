/**
 * `follow`: tries again, as a new effect, what was declined, failed or had no effect, or is resolved so. What may have
 * happened it never tries again: the ledger refuses.
 */
import { type Command, Option } from "commander";
import { LedgerError } from "../../core/error.ts";
import { DECLINED_REASONS, type DeclinedReason } from "../../core/state.ts";
import { cleanText } from "../../core/text.ts";
import { followStatement } from "../../request/request.ts";
import { isKnown } from "../../store/audit.ts";
import { type DeclinedEffect, listDeclined } from "../../store/audit-followers.ts";
import { onClient, runChange } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type Connected, type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { EFFECT_HELP, findEffect, findOwnEffect } from "../find-effect.ts";
import { followMany } from "../follow-many.ts";
import { parseMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { calledBy } from "../short-id.ts";
import { watching } from "../watch.ts";

interface FollowFlags {
  readonly reason?: string;
  readonly dryRun?: true;
  readonly declined?: DeclinedReason;
  readonly since?: string;
  readonly operation?: string;
  readonly limit: number;
}

/** A night's outage; what is beyond it is followed by running the same again. */
const LIMIT_DEFAULT = 1_000;
const LIMIT_MAX = 100_000;

export function addFollow(program: Command): void {
  const command = program
    .command("follow")
    .summary("try again what did not happen, as a new effect")
    .description(
      "Try an effect again, as a new one that follows it: the same operation, input, task and actor. Followed is what was " +
        "declined, failed or had no effect, or is resolved so; what may have happened never is. What is being tried again " +
        "already is left as it is, and its id printed. After an accepted risk an operator gives a reason. With --declined, all " +
        "that was declined for a reason since a moment, each in a transaction of its own.",
    )
    .argument("[effect]", EFFECT_HELP)
    .option("--reason <reason>", "why, for whoever reads the record: 1 to 500 characters")
    .addOption(
      new Option("--declined <reason>", "all that was declined so, and not tried again").choices(DECLINED_REASONS),
    )
    .option("--since <moment>", "with --declined: since when: 2026-11-30T02:00Z, 02:00, or 2h for two hours ago")
    .option("--operation <name>", "with --declined: only those of this operation")
    .option("--limit <n>", "with --declined: at most so many", wholeNumber(1, LIMIT_MAX), LIMIT_DEFAULT)
    .option("--dry-run", "show what would be tried again, and change nothing")
    .action((effect: string | undefined, _flags: FollowFlags, self: Command) =>
      conclude<FollowFlags>(self, (output, flags) => run(output, flags, effect)),
    );
  withExamples(command, [
    "follow order/42/receipt",
    "follow --declined expired --since 2h --operation mail_send --dry-run",
    "follow order/7/mail --reason 'ana: the customer never had it' # after accept-risk",
  ]);
}

async function run(output: Output, flags: FollowFlags & GlobalFlags, given: string | undefined): Promise<ExitCode> {
  const { declined, since, operation } = flags;
  const many = declined !== undefined;
  if (many === (given !== undefined) || many !== (since !== undefined) || (!many && operation !== undefined)) {
    throw new LedgerError("usage_invalid", "one effect is named, or --declined says which and --since since when", {
      hint: "pg-effects follow EFFECT, or pg-effects follow --declined expired --since 2h",
    });
  }
  return withAudit(flags, async (connected) => {
    if (given !== undefined) return runOne(connected, output, flags, given);
    return watching((signal) => runMany(connected, output, flags, signal));
  });
}

async function runOne(connected: Connected, output: Output, flags: FollowFlags, given: string): Promise<ExitCode> {
  const followed = await effectOf(connected, given);
  const dryRun = flags.dryRun === true;
  const statement = followStatement(followed.effect_id, flags.reason);
  const { effect_id } = await runChange<{ effect_id: string }>(connected.connectionString, { ...statement, dryRun });
  output.document({ dry_run: dryRun, follows: followed.effect_id, name: followed.name, effect_id });
  if (dryRun) output.line(cleanText(`${calledBy(followed)} would be tried again; nothing is changed`));
  else output.line(effect_id);
  return EXIT.done;
}

async function effectOf(
  { audit, audits, connectionString }: Connected,
  given: string,
): Promise<{ readonly effect_id: string; readonly name: string | null }> {
  if (audits) return findEffect(audit, given);
  return onClient(connectionString, "pg-effects follow", (client) => findOwnEffect(client, given));
}

async function runMany(
  { audit, connectionString }: Connected,
  output: Output,
  flags: FollowFlags,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { declined: reason = "expired", since = "", operation, limit } = flags;
  if (operation !== undefined && !(await isKnown(audit, "operation", operation))) {
    throw new LedgerError("operation_unknown", `no operation is named ${JSON.stringify(operation)}`, {
      hint: "correct --operation",
    });
  }
  const effects: readonly DeclinedEffect[] = await listDeclined(audit, {
    reason,
    since: parseMoment(since, "past"),
    operation,
    limit,
  });
  const because = flags.reason === undefined ? {} : { reason: flags.reason };
  const exit = await followMany(connectionString, output, effects, {
    ...because,
    dryRun: flags.dryRun === true,
    signal,
  });
  if (effects.length === limit) output.note(`the oldest ${limit}; run the same again for more`);
  return exit;
}
