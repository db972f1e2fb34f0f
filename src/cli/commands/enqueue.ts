/** `enqueue`: requests an effect, as any service does, and waits for its ending where that is asked for. */
import { type Command, Option } from "commander";
import { cleanText } from "../../core/text.ts";
import { readClock } from "../../store/audit.ts";
import { readLedger } from "../../store/audit-ledger.ts";
import { readStory } from "../../store/audit-story.ts";
import { enqueueText, type TextRequest } from "../../store/enqueue-text.ts";
import { conclude, withExamples } from "../action.ts";
import { closureOf } from "../closure.ts";
import { type Connected, type GlobalFlags, withAudit } from "../connection.ts";
import { parseDuration } from "../duration.ts";
import { endingExit } from "../ending.ts";
import { bodyWords } from "../evidence-words.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { findEffect } from "../find-effect.ts";
import { readInputText } from "../input-text.ts";
import { withoutWorker } from "../live-workers.ts";
import { parseMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { standingWords } from "../standing-words.ts";
import { timelineWords } from "../timeline-words.ts";
import { waitForOwn } from "../wait-own.ts";
import { lookUntil, watching } from "../watch.ts";

interface EnqueueFlags {
  readonly task?: string;
  readonly name?: string;
  readonly actor?: string;
  readonly notBefore?: string;
  readonly expiresAt?: string;
  readonly priority?: number;
  readonly onDenial?: "wait" | "decline";
  readonly wait?: number;
}

/** The queue's priorities are smallints. */
const PRIORITY_MAX = 32_767;

export function addEnqueue(program: Command): void {
  const command = program
    .command("enqueue")
    .summary("request an effect")
    .description(
      "Request an effect and print its id. A worker carries it out, once. " +
        "With --wait the exit code says how it ended: 0 accepted, 3 unresolved or uncertain, 4 declined, failed or no effect, " +
        "5 not ended yet. It goes on in any case; nothing is ever sent again by waiting or asking.",
    )
    .argument("<operation>", "the operation's name, as its file in tasks/")
    .argument("<input>", "its input as JSON, @FILE, or - for stdin; passed on unchanged")
    .option("--task <name>", "the task whose authority and budgets it uses (default: default)")
    .option("--name <name>", "one business fact: the same name with the same request is the same effect")
    .option("--actor <actor>", "a registered actor that this login speaks for (default: the login itself)")
    .option("--not-before <moment>", "not sent before: 2026-11-30T02:00Z, 02:00, or 2h for in two hours")
    .option("--expires-at <moment>", "declined if it was not admitted by then; same forms")
    .option(
      "--priority <n>",
      "smaller goes first, from -32768 to 32767 (default: 0)",
      wholeNumber(-PRIORITY_MAX - 1, PRIORITY_MAX),
    )
    .addOption(
      new Option("--on-denial <how>", "what a denial does: makes it wait (default), or declines it at once").choices([
        "wait",
        "decline",
      ]),
    )
    .option("--wait <duration>", "wait for its ending, at most so long: 30s, 5m; up to 24h", (text) =>
      parseDuration(text),
    )
    .action((operation: string, input: string, _flags: EnqueueFlags, self: Command) =>
      conclude<EnqueueFlags>(self, (output, flags) => run(output, flags, operation, input)),
    );
  withExamples(command, [
    `enqueue mail_send '{"to":"ana@example.com","subject":"Receipt"}' --name order/42/receipt`,
    "enqueue charge_card @charge.json --task customers/42 --wait 30s",
  ]);
}

async function run(
  output: Output,
  flags: EnqueueFlags & GlobalFlags,
  operation: string,
  given: string,
): Promise<ExitCode> {
  const { task, name, actor, priority, onDenial } = flags;
  const request: TextRequest = {
    operation,
    input: await readInputText(given),
    task,
    name,
    actor,
    notBefore: flags.notBefore === undefined ? undefined : parseMoment(flags.notBefore, "future"),
    expiresAt: flags.expiresAt === undefined ? undefined : parseMoment(flags.expiresAt, "future"),
    priority,
    onDenial,
  };
  return withAudit(flags, (connected) =>
    flags.wait === undefined
      ? enqueue(connected, output, request)
      : enqueueAndWait(connected, output, request, flags.wait),
  );
}

async function enqueue(connected: Connected, output: Output, request: TextRequest): Promise<ExitCode> {
  const obstacles = await obstaclesOf(connected, request.operation);
  const id = await enqueueText(connected.connectionString, request);
  output.line(id);
  output.document({ effect_id: id });
  for (const obstacle of obstacles) output.note(`it waits: ${obstacle}`);
  return EXIT.done;
}

async function enqueueAndWait(
  connected: Connected,
  output: Output,
  request: TextRequest,
  timeoutMs: number,
): Promise<ExitCode> {
  return watching(async (signal) => {
    const obstacles = await obstaclesOf(connected, request.operation);
    const id = await enqueueText(connected.connectionString, request);
    output.line(id);
    if (output.json) output.note(`waiting for effect ${id}`); // whatever happens to the document, the id is told
    for (const obstacle of obstacles) output.note(`it waits: ${obstacle}`);
    const wait = connected.audits ? waitForEnding : waitForOwn;
    return wait(connected, output, id, { timeoutMs, signal });
  });
}

/** What will keep it waiting. Looked at before the request, after which nothing may fail but the waiting. */
async function obstaclesOf(connected: Connected, operation: string): Promise<readonly string[]> {
  const closure = closureOf(await readLedger(connected));
  const missing = connected.audits ? await withoutWorker(connected.audit, [operation]) : []; // a service is not shown who works
  return [
    ...(closure ? [`the ledger is closed (${closure.code}): ${closure.message}`] : []),
    ...missing.map((name) => `no live worker has ${name}; start one: pg-effects worker`),
  ];
}

async function waitForEnding(
  { audit }: Connected,
  output: Output,
  id: string,
  until: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<ExitCode> {
  const look = () => findEffect(audit, id);
  const ended = await lookUntil(async () => {
    const effect = await look();
    return endingExit(effect) === EXIT.deadline ? null : effect;
  }, until);
  const effect = ended ?? (await look());
  const { hint, evidence, timeline } = await readStory(audit, effect);
  output.document({ effect_id: id, effect, evidence, timeline, hint });
  output.line(standingWords(effect, await readClock(audit)));
  if (hint !== null) output.line(`  ${hint}`);
  const last = timeline.at(-1);
  if (last && (effect.unresolved || effect.state === "declined")) output.line(`  ${cleanText(timelineWords(last))}`);
  for (const each of evidence) output.line(`  ${cleanText(bodyWords(each))}`);
  if (!ended) output.note(`it goes on: pg-effects show ${id}`);
  return !ended && until.signal.aborted ? EXIT.interrupted : endingExit(effect);
}
