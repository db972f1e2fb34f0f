/** `show`: everything about one effect, in order. */
import type { Command } from "commander";
import { readClock } from "../../store/audit.ts";
import type { AuditCost, AuditEffect, AuditObligation } from "../../store/audit-schema.ts";
import { type EffectStory, readStory } from "../../store/audit-story.ts";
import { type Doubt, listUnresolved } from "../../store/audit-unresolved.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { evidenceWords, saidWords } from "../evidence-words.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { EFFECT_HELP, findEffect } from "../find-effect.ts";
import { formatInstant, formatMoment, zoneName } from "../moment.ts";
import { nextStep } from "../next-step.ts";
import type { Output } from "../output.ts";
import { contradictionWords, resolvedByWords } from "../resolution-words.ts";
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
    const [doubt] = effect.unresolved ? await listUnresolved(audit, 1, effect.effect_id) : [];
    const now = await readClock(audit);
    output.document({ effect, ...story, ...(doubt && { next: nextStep(doubt, now) }) });
    printEffect(output, effect, story, now);
    if (doubt) printDoubt(output, doubt, now);
    return effect.unresolved ? EXIT.unresolved : EXIT.done;
  });
}

function printEffect(output: Output, effect: AuditEffect, story: EffectStory, now: Date): void {
  const { operation, operation_version: version } = effect;
  output.line(`${calledBy(effect)}  ${operation} ${version}  ${standingWords(effect, now)}`);
  if (story.hint !== null) output.line(`  ${story.hint}`);
  for (const line of tableLines(FACTS, factsOf(effect, story, now))) output.line(`  ${line}`);

  output.line();
  const said = saidWords(story.evidence);
  const lines = tableLines(
    [
      { title: `time (${zoneName()})`, cell: ({ at }) => formatInstant(at, now) },
      { title: "what", cell: ({ what }) => what },
      { title: "who", cell: ({ by_role }) => by_role },
      { title: "detail", cell: (entry) => [timelineWords(entry), said(entry)].filter(Boolean).join(": ") },
    ],
    story.timeline,
  );
  for (const line of lines) output.line(line);
}

function printDoubt(output: Output, doubt: Doubt, now: Date): void {
  output.line();
  const next = nextStep(doubt, now);
  output.line(
    doubt.state === "uncertain"
      ? "exit 3      uncertain: the recipient was asked and could not tell; that is final until somebody resolves it"
      : `exit 3      unresolved: pg-effects reconcile --effect ${shortId(doubt.effect_id)} --deadline 5m`,
  );
  if (next !== "reconcile") output.line(`next        ${next}`);
}

type Fact = readonly [what: string, is: string | null];

const FACTS = [
  { title: "", cell: ([what]: Fact) => what },
  { title: "", cell: ([, is]: Fact) => is ?? "" },
];

/** What it is and where it was meant for; whatever is not there is left out. */
function factsOf(effect: AuditEffect, story: EffectStory, now: Date): readonly Fact[] {
  const { costs, evidence, resolutions, contradictions, obligation } = story;
  // What decided it; all else that was said stands in the timeline.
  const decisive = evidence.find(({ says, agrees }) => says === effect.outcome && agrees !== false);
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
    ["follows", effect.follows && [shortId(effect.follows), effect.follow_reason].filter(Boolean).join(": ")],
    ["followed by", effect.followed_by && shortId(effect.followed_by)],
    ["under", effect.admitted_under],
    ...costs.map((cost): Fact => ["cost", costWords(cost)]),
    ["evidence", decisive ? evidenceWords(decisive) : null],
    ...resolutions.map((each): Fact => ["resolution", resolvedByWords(each, now)]),
    ...contradictions.map((each): Fact => ["contradicted", contradictionWords(each, now)]),
    ["cleanup", obligation && cleanupWords(obligation, now)],
  ];
  return facts.filter(([, is]) => is !== null);
}

function cleanupWords({ due_at, closed_at, given_up_at, tries, last_fault }: AuditObligation, now: Date): string {
  if (closed_at) return `done ${formatMoment(closed_at, now)}`;
  if (!due_at) return "owed once it is settled";
  const times = tries === 1 ? "once" : `${tries} times`;
  const tried = tries > 0 ? `, tried ${times}${last_fault === null ? "" : `: ${last_fault}`}` : "";
  return `owed since ${formatMoment(due_at, now)}${given_up_at ? ", and nobody tries any more" : ""}${tried}`;
}

function costWords({ unit, reserved, settled, overrun, standing, source }: AuditCost): string {
  const overran = overrun > 0n ? `, overrun ${overrun}` : "";
  if (settled === null) return `${reserved} ${unit} held`;
  return `${settled} ${unit} ${standing} of ${reserved} reserved, ${source}${overran}`;
}
