/** `find`: which effects a text may mean, of all that people and recipients call an effect by. */
import type { Command } from "commander";
import { LedgerError } from "../../core/error.ts";
import { findEffects, readClock } from "../../store/audit.ts";
import type { AuditEffect } from "../../store/audit-schema.ts";
import { onClient } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type Connected, type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { findOwnEffect, namingOf } from "../find-effect.ts";
import { formatMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { shortId } from "../short-id.ts";
import { standingWords } from "../standing-words.ts";
import { tableLines } from "../table.ts";
import { standsAs } from "../wait-own.ts";

interface FindFlags {
  readonly limit: number;
}

export function addFind(program: Command): void {
  const command = program
    .command("find")
    .summary("effects by the recipient's reference, key, name or target")
    .description(
      "Every effect that a text may mean: the recipient's reference, its key, its name or task:name, its target, its id or " +
        "the last eight digits of it; newest first. A target is looked for in the bodies of all bindings, which takes its time.",
    )
    .argument("<text>", "as a customer, a recipient or a log says it")
    .option("--limit <n>", "at most so many", wholeNumber(1, 10_000), 50)
    .action((text: string, _flags: FindFlags, self: Command) =>
      conclude<FindFlags>(self, (output, flags) => run(output, flags, text)),
    );
  withExamples(command, ["find ch_123", "find customers/42:receipt", "find refs/heads/main --json"]);
}

async function run(output: Output, flags: FindFlags & GlobalFlags, text: string): Promise<ExitCode> {
  return withAudit(flags, (connected) =>
    connected.audits ? findAny(connected, output, text, flags.limit) : findOwn(connected, output, text),
  );
}

async function findAny({ audit }: Connected, output: Output, text: string, limit: number): Promise<ExitCode> {
  const found = await findEffects(audit, namingOf(text, "words or target"), limit);
  if (found.length === 0) {
    throw new LedgerError(
      "effect_unknown",
      `no effect has ${JSON.stringify(text)} as its reference, key, name, target or id`,
      {
        hint: "a name is the whole name, and a target the whole target; `pg-effects list` shows the newest effects",
      },
    );
  }
  const now = await readClock(audit);
  output.document(found);
  const columns = [
    { title: "effect", cell: ({ effect_id }: AuditEffect) => shortId(effect_id) },
    { title: "requested", cell: ({ requested_at }: AuditEffect) => formatMoment(requested_at, now) },
    { title: "operation", cell: ({ operation }: AuditEffect) => operation },
    { title: "task", cell: ({ task_name }: AuditEffect) => task_name },
    { title: "name", cell: ({ name }: AuditEffect) => name ?? "" },
    { title: "target", cell: ({ target }: AuditEffect) => target ?? "" },
    { title: "reference", cell: ({ reference }: AuditEffect) => reference ?? "" },
    { title: "state", cell: (effect: AuditEffect) => standingWords(effect, now) },
  ];
  for (const line of tableLines(columns, found)) output.line(line);
  if (found.length === limit) output.note(`the newest ${limit}; --limit shows more`);
  return EXIT.done;
}

/** What a service sees of its own. */
async function findOwn({ audit, connectionString }: Connected, output: Output, text: string): Promise<ExitCode> {
  const row = await onClient(connectionString, "pg-effects find", (client) => findOwnEffect(client, text));
  output.document([row]);
  output.line(`${row.effect_id}  ${row.operation}  ${standingWords(standsAs(row), await readClock(audit))}`);
  return EXIT.done;
}
