/** `explain`: why an effect has not been sent, as the admission decision of now, check by check. It changes nothing. */
import type { Command } from "commander";
import { type Explanation, explain } from "../../admit/explain.ts";
import { cleanText } from "../../core/text.ts";
import { type Audit, readClock } from "../../store/audit.ts";
import { listOperations, readAbove, readHint } from "../../store/audit-control.ts";
import type { AuditEffect } from "../../store/audit-schema.ts";
import { onClient } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type Connected, type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { checkWords, deciding, type Explained, helpingCommand, verdictWords } from "../explain-words.ts";
import { EFFECT_HELP, findEffect } from "../find-effect.ts";
import { withoutWorker } from "../live-workers.ts";
import { formatMoment } from "../moment.ts";
import type { Output } from "../output.ts";
import { calledBy, shortId } from "../short-id.ts";
import { standingWords } from "../standing-words.ts";
import { tableLines } from "../table.ts";

export function addExplain(program: Command): void {
  const command = program
    .command("explain")
    .summary("why an effect has not been sent")
    .description(
      "Why an effect has not been sent: the admission decision on the facts of now, its eight checks, looked at and not " +
        "taken. Exit code 6 where the ledger itself is closed.",
    )
    .argument("<effect>", EFFECT_HELP)
    .action((effect: string, _flags: object, self: Command) =>
      conclude<object>(self, (output, flags) => run(output, flags, effect)),
    );
  withExamples(command, ["explain order/43/charge", "explain 5a3f09c2 --json"]);
}

async function run(output: Output, flags: GlobalFlags, given: string): Promise<ExitCode> {
  return withAudit(flags, async (connected) => {
    const effect = await findEffect(connected.audit, given);
    if (effect.state !== "prepared") return sayStanding(connected, output, effect);
    const explanation = await onClient(connected.connectionString, "pg-effects explain", (client) =>
      explain(client, effect.effect_id),
    );
    // A worker was faster than we are: then it is said where the effect stands now.
    if (explanation.state !== "prepared") {
      return sayStanding(connected, output, await findEffect(connected.audit, effect.effect_id));
    }
    return sayChecks(connected, output, effect, explanation);
  });
}

/** One that is not prepared yet, or was decided already: there is no decision to explain. */
async function sayStanding({ audit }: Connected, output: Output, effect: AuditEffect): Promise<ExitCode> {
  const hint = await readHint(audit, effect.denial_code);
  const missing = effect.state === "requested" ? await withoutWorker(audit, [effect.operation]) : [];
  output.document({ effect, checks: null, decides: null, waits_for: effect.waiting_for, hint, command: null });
  output.line(cleanText(`${headOf(effect)}  ${standingWords(effect, await readClock(audit))}`));
  if (hint !== null) output.line(`  ${hint}`);
  output.line(
    effect.state === "requested"
      ? "  not prepared yet: nothing is bound, so nothing is decided"
      : `  decided already: pg-effects show ${shortId(effect.effect_id)}`,
  );
  for (const operation of missing) output.note(`no live worker has ${operation}; start one: pg-effects worker`);
  return EXIT.done;
}

async function sayChecks(
  { audit }: Connected,
  output: Output,
  effect: AuditEffect,
  { lines }: Explanation,
): Promise<ExitCode> {
  const explained = await readExplained(audit, effect);
  const denial = deciding(lines);
  const hint = denial && (await readHint(audit, denial.code));
  const command = denial && helpingCommand(denial, explained);
  const missing = await withoutWorker(audit, [effect.operation]);
  output.document({
    effect,
    checks: lines.map(({ check, denial: found, standing }) => ({
      check,
      ok: found === null,
      code: found?.code ?? null,
      waits_for: found?.waitingFor ?? null,
      detail: found?.detail ?? {},
      standing,
    })),
    decides: denial?.code ?? null,
    waits_for: denial?.waitingFor ?? null,
    hint,
    command,
  });

  const { prepared_at, expires_at } = effect;
  const moments = [prepared_at, expires_at].map((moment) => moment && formatMoment(moment, explained.now));
  output.line(cleanText(`${headOf(effect)}  prepared ${moments[0]}, expires ${moments[1]}`));
  const table = tableLines(
    [
      { title: "", cell: ([place, { check }]) => `${place + 1} ${check}` },
      { title: "", cell: ([, line]) => (line.denial ? "no" : "ok") },
      { title: "", cell: ([, line]) => checkWords(line, explained) },
      { title: "", cell: ([, line]) => (line.denial ? (line.denial.waitingFor ? "transient" : "final") : "") },
    ],
    [...lines.entries()],
  );
  for (const line of table) output.line(`  ${line}`);
  if (!denial) output.line("waits for a worker: nothing stands against it");
  else output.line([verdictWords(denial), command].filter(Boolean).join("    "));
  if (hint !== null) output.line(`  ${hint}`);
  for (const operation of missing) output.note(`no live worker has ${operation}; start one: pg-effects worker`);
  return lines.some((line) => line.check === "ledger" && line.denial) ? EXIT.closed : EXIT.done;
}

function headOf(effect: AuditEffect): string {
  return `${calledBy(effect)}  ${effect.operation} ${effect.operation_version}`;
}

/** Far above what one ledger has. */
const OPERATIONS_MAX = 1_000;

async function readExplained(audit: Audit, effect: AuditEffect): Promise<Explained> {
  const operations = await listOperations(audit, OPERATIONS_MAX);
  const above = await readAbove(audit, effect.task);
  return {
    effect,
    operation: operations.find(
      ({ operation, version }) => operation === effect.operation && version === effect.operation_version,
    ),
    taskNames: new Map(above.map(({ task, name }) => [task, name])),
    now: await readClock(audit),
  };
}
