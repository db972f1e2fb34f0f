/** `reconciliation list` and `show`: who asked the recipients about what, how far it got, and what they said. */
import type { Command } from "commander";
import { LedgerError } from "../../core/error.ts";
import { cleanText } from "../../core/text.ts";
import { type Audit, readClock } from "../../store/audit.ts";
import { readLeftOpen, readReconciliation } from "../../store/audit-reconciliation.ts";
import {
  findReconciliations,
  listInspections,
  listNotReached,
  listReconciliations,
} from "../../store/audit-reconciliations.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { formatMoment, parseMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { FACTS, factsOf, inspectionLines, notReachedLines, reachedWords, scopeWords } from "../reconciliation-words.ts";
import { shortId } from "../short-id.ts";
import { tableLines } from "../table.ts";

interface ListFlags {
  readonly since?: string;
  readonly limit: number;
}

interface ShowFlags {
  readonly limit: number;
}

const EXAMPLES = ["reconciliation list --since 12h", "reconciliation show", "reconciliation show 5a3f09c2 --json"];

export function addReconciliation(program: Command): void {
  const reconciliation = program
    .command("reconciliation")
    .helpCommand(false)
    .summary("what was asked for by reconcile, and what came of it")
    .description("Reconciliations that were asked for: they go on without whoever asked, until their deadline.");
  withExamples(reconciliation, EXAMPLES);
  const list = reconciliation
    .command("list")
    .summary("who asked about what, and how far it got")
    .description("Reconciliations, the newest first: who asked about what, until when, and how far each got.")
    .option("--since <moment>", "only those asked for since: 2026-11-30T02:00Z, 02:00, or 12h for twelve hours ago")
    .option("--limit <n>", "at most so many", wholeNumber(1, 10_000), 50)
    .action((_flags: ListFlags, self: Command) => conclude<ListFlags>(self, runList));
  const show = reconciliation
    .command("show")
    .summary("what one asked, what it was told, and what it did not reach")
    .description(
      "One reconciliation: who asked, its scope, what it allows, its deadline, each inspection with what the recipient said, " +
        "and what was not reached. Exit code 3 while something in its scope is unresolved, 5 where it ended before it had " +
        "asked about all of that.",
    )
    .argument("[reconciliation]", "its id, or the last eight digits of it; without one, the newest")
    .option("--limit <n>", "at most so many inspections", wholeNumber(1, 100_000), 200)
    .action((given: string | undefined, _flags: ShowFlags, self: Command) =>
      conclude<ShowFlags>(self, (output, flags) => runShow(output, flags, given)),
    );
  withExamples(list, EXAMPLES.slice(0, 1));
  withExamples(show, EXAMPLES.slice(1));
}

async function runList(output: Output, { limit, ...flags }: ListFlags & GlobalFlags): Promise<ExitCode> {
  const since = flags.since === undefined ? undefined : parseMoment(flags.since, "past");
  return withAudit(flags, async ({ audit }) => {
    const found = await listReconciliations(audit, { since, limit });
    const now = await readClock(audit);
    output.document(found);
    const lines = tableLines(
      [
        { title: "reconciliation", cell: ({ reconciliation_id }) => shortId(reconciliation_id) },
        {
          title: "asked",
          cell: ({ requested_at, requested_by }) => `${formatMoment(requested_at, now)} by ${requested_by}`,
        },
        { title: "scope", cell: scopeWords },
        { title: "allows", cell: ({ allows }) => allows },
        { title: "standing", cell: (each) => reachedWords(each, now) },
        { title: "in scope", align: "right", cell: ({ in_scope }) => String(in_scope) },
        { title: "asked about", align: "right", cell: ({ inspected }) => String(inspected) },
        { title: "recorded", align: "right", cell: ({ recorded }) => String(recorded) },
        { title: "could not ask", align: "right", cell: ({ could_not_ask }) => String(could_not_ask) },
        { title: "not reached", align: "right", cell: ({ not_reached }) => String(not_reached) },
      ],
      found,
    );
    for (const line of lines) output.line(line);
    if (found.length === 0) output.note("nobody asked: pg-effects reconcile");
    if (found.length === limit) output.note(`the newest ${limit}; --limit shows more`);
    return EXIT.done;
  });
}

/** Effects that were not reached and are shown one by one. */
const NOT_REACHED_SHOWN = 20;

async function runShow(
  output: Output,
  { limit, ...flags }: ShowFlags & GlobalFlags,
  given: string | undefined,
): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const id = await idMeant(audit, given);
    const asked = await readReconciliation(audit, id);
    const inspections = await listInspections(audit, id, limit);
    const notReached = await listNotReached(audit, id, NOT_REACHED_SHOWN);
    const left = await readLeftOpen(audit, id, 0);
    const now = await readClock(audit);
    const exit =
      asked.ended !== null && left.notAsked > 0n ? EXIT.deadline : left.count > 0n ? EXIT.unresolved : EXIT.done;
    output.document({ ...asked, unresolved: left.count, inspections, not_reached_effects: notReached, exit });
    output.line(cleanText(`reconciliation ${id}  ${scopeWords(asked)}, asked for by ${asked.requested_by}`));
    for (const line of tableLines(FACTS, factsOf(asked, now))) output.line(`  ${line}`);
    output.line();
    for (const line of inspectionLines(inspections, now)) output.line(line);
    if (inspections.length === limit) output.note(`the first ${limit}; --limit shows more`);
    if (notReached.length > 0) {
      output.line();
      for (const line of notReachedLines(notReached)) output.line(line);
      if (asked.not_reached > BigInt(notReached.length)) {
        output.line(`the first ${notReached.length} of ${asked.not_reached}`);
      }
    }
    if (exit !== EXIT.done) {
      const are = left.count === 1n ? "1 in scope is" : `${left.count} in scope are`;
      const rest = left.notAsked > 0n ? `, not asked about: ${left.notAsked}` : "";
      output.line(`exit ${exit}      ${are} unresolved${rest}: pg-effects unresolved`);
    }
    return exit;
  });
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** @throws LedgerError `reconciliation_unknown`, `usage_invalid` */
async function idMeant(audit: Audit, given: string | undefined): Promise<string> {
  const digits = given?.toLowerCase();
  const looked = digits !== undefined && UUID.test(digits) ? digits.slice(-8) : digits;
  const found =
    looked === undefined || /^[0-9a-f]{8}$/.test(looked) ? await findReconciliations(audit, looked ?? null) : [];
  const meant = found.filter((id) => digits === undefined || id === digits || shortId(id) === digits);
  const [id, another] = meant;
  if (another !== undefined) {
    throw new LedgerError("usage_invalid", `several reconciliations end with ${given}`, { hint: "give the whole id" });
  }
  if (id !== undefined) return id;
  const what =
    given === undefined ? "there is no reconciliation" : `no reconciliation goes by ${JSON.stringify(given)}`;
  throw new LedgerError("reconciliation_unknown", what, { hint: "pg-effects reconciliation list shows the newest" });
}
