/** `show`: everything about one effect, in order. */
import type { Command } from "commander";
import { type EffectStory, readClock, readStory } from "../../store/audit.ts";
import type { AuditCost, AuditEffect } from "../../store/audit-schema.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { evidenceWords } from "../evidence-words.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { EFFECT_HELP, findEffect } from "../find-effect.ts";
import { formatInstant, formatMoment, zoneName } from "../moment.ts";
import type { Output } from "../output.ts";
import { calledBy, shortId } from "../short-id.ts";
import { standingWords } from "../standing-words.ts";
import { tableLines } from "../table.ts";
import { timelineWords } from "../timeline-words.ts";

export function addShow(program: Command): void {
  const command = program
    .command("show")
    .summary("everything about one effect, in order")
    .description("Everything about one effect: where it stands, what it costs, and what happened, in order, with who.")
    .argument("<effect>", EFFECT_HELP)
    .action((effect: string, _flags: object, self: Command) =>
      conclude<object>(self, (output, flags) => run(output, flags, effect)),
    );
  withExamples(command, ["show order/42/charge", "show customers/42:receipt", "show 5a3f09c2 --json"]);
}

async function run(output: Output, flags: GlobalFlags, given: string): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const effect = await findEffect(audit, given);
    const story = await readStory(audit, effect);
    output.document({ effect, ...story });
    printEffect(output, effect, story, await readClock(audit));
    return effect.unresolved ? EXIT.unresolved : EXIT.done;
  });
}

function printEffect(output: Output, effect: AuditEffect, story: EffectStory, now: Date): void {
  const { operation, operation_version: version } = effect;
  output.line(`${calledBy(effect)}  ${operation} ${version}  ${standingWords(effect, now)}`);
  if (story.hint !== null) output.line(`  ${story.hint}`);
  for (const line of tableLines(FACTS, factsOf(effect, story, now))) output.line(`  ${line}`);

  output.line();
  const lines = tableLines(
    [
      { title: `time (${zoneName()})`, cell: ({ at }) => formatInstant(at, now) },
      { title: "what", cell: ({ what }) => what },
      { title: "who", cell: ({ by_role }) => by_role },
      { title: "detail", cell: timelineWords },
    ],
    story.timeline,
  );
  for (const line of lines) output.line(line);
  if (effect.unresolved) {
    output.line();
    output.line(
      effect.state === "uncertain"
        ? "exit 3      uncertain: the recipient was asked and could not tell; that is final until somebody resolves it"
        : `exit 3      unresolved: pg-effects reconcile --effect ${shortId(effect.effect_id)} --deadline 5m`,
    );
  }
}

type Fact = readonly [what: string, is: string | null];

const FACTS = [
  { title: "", cell: ([what]: Fact) => what },
  { title: "", cell: ([, is]: Fact) => is ?? "" },
];

/** What it is and where it was meant for; whatever is not there is left out. */
function factsOf(effect: AuditEffect, { costs, evidence }: EffectStory, now: Date): readonly Fact[] {
  const waits = effect.state === "requested" || effect.state === "prepared";
  const facts: Fact[] = [
    ["id", effect.effect_id],
    ["key", effect.key],
    ["task", `${effect.task_path}, actor ${effect.actor}`],
    ["target", effect.target],
    ["digest", effect.digest],
    ["not before", effect.not_before && waits ? formatMoment(effect.not_before, now) : null],
    ["expires", waits ? formatMoment(effect.expires_at, now) : null],
    ["reference", effect.reference],
    ["under", effect.admitted_under],
    ...costs.map((cost): Fact => ["cost", costWords(cost)]),
    ...evidence.map((each): Fact => ["evidence", evidenceWords(each)]),
  ];
  return facts.filter(([, is]) => is !== null);
}

function costWords({ unit, reserved, settled, overrun, standing, source }: AuditCost): string {
  const overran = overrun > 0n ? `, overrun ${overrun}` : "";
  if (settled === null) return `${reserved} ${unit} held`;
  return `${settled} ${unit} ${standing} of ${reserved} reserved, ${source}${overran}`;
}
