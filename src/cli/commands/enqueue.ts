/** `enqueue`: requests an effect, as any service does, and waits for its ending where that is asked for. */
import { type Command, Option } from "commander";
import { cleanText } from "../../core/text.ts";
import { findEffects, readClock, readStory } from "../../store/audit.ts";
import { readLedger } from "../../store/audit-ledger.ts";
import type { AuditEffect } from "../../store/audit-schema.ts";
import { enqueueText, type TextRequest } from "../../store/enqueue-text.ts";
import { conclude, withExamples } from "../action.ts";
import { closureOf } from "../closure.ts";
import { type Connected, type GlobalFlags, withLedger } from "../connection.ts";
import { parseDuration } from "../duration.ts";
import { bodyWords } from "../evidence-words.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { readInputText } from "../input-text.ts";
import { withoutWorker } from "../live-workers.ts";
import { parseMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { standingWords } from "../standing-words.ts";
import { lookUntil, watchSignals } from "../watch.ts";

interface EnqueueFlags {
  readonly task?: string;
  readonly name?: string;
  readonly notBefore?: string;
  readonly expiresAt?: string;
  readonly priority?: number;
  readonly onDenial?: "wait" | "decline";
  readonly wait?: number;
}

const INT_MAX = 2_147_483_647;

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
    .option("--not-before <moment>", "not sent before: 2026-11-30T02:00Z, 02:00, or 2h for in two hours")
    .option("--expires-at <moment>", "declined if it was not admitted by then; same forms")
    .option("--priority <n>", "smaller goes first (default: 0)", wholeNumber(-INT_MAX, INT_MAX))
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
  const { task, name, priority, onDenial } = flags;
  const request: TextRequest = {
    operation,
    input: await readInputText(given),
    task,
    name,
    notBefore: flags.notBefore === undefined ? undefined : parseMoment(flags.notBefore, "future"),
    expiresAt: flags.expiresAt === undefined ? undefined : parseMoment(flags.expiresAt, "future"),
    priority,
    onDenial,
  };
  return withLedger(flags, async (connected) => {
    const id = await enqueueText(connected.connectionString, request);
    output.line(id);
    await noteObstacles(connected, output, operation);
    if (flags.wait === undefined) {
      output.document({ effect_id: id });
      return EXIT.done;
    }
    if (output.json) output.note(`waiting for effect ${id}`); // whatever happens to the document, the id is told
    return waitForEnding(connected, output, id, flags.wait);
  });
}

/** What will keep it waiting, said at once. The request stands all the same. */
async function noteObstacles({ audit }: Connected, output: Output, operation: string): Promise<void> {
  const closure = closureOf(await readLedger(audit));
  if (closure) output.note(`it waits: the ledger is closed (${closure.code}): ${closure.message}`);
  const [missing] = await withoutWorker(audit, [operation]);
  if (missing !== undefined) output.note(`it waits: no live worker has ${missing}; start one: pg-effects worker`);
}

async function waitForEnding({ audit }: Connected, output: Output, id: string, timeoutMs: number): Promise<ExitCode> {
  const look = async (): Promise<AuditEffect | null> =>
    (await findEffects(audit, { by: "id", value: id }, 1))[0] ?? null;
  const watching = watchSignals();
  const ended = await lookUntil(
    async () => {
      const effect = await look();
      return effect && exitOf(effect) !== EXIT.deadline ? effect : null;
    },
    { timeoutMs, signal: watching.signal },
  );
  watching.stop();
  const effect = ended ?? (await look());
  if (!effect) return EXIT.fault;
  const { hint, evidence } = await readStory(audit, effect);
  output.document({ effect_id: id, effect, evidence, hint });
  output.line(standingWords(effect, await readClock(audit)));
  if (hint !== null) output.line(`  ${hint}`);
  for (const each of evidence) output.line(`  ${cleanText(bodyWords(each))}`);
  if (!ended) output.note(`it goes on: pg-effects show ${id}`);
  return !ended && watching.signal.aborted ? EXIT.interrupted : exitOf(effect);
}

/** `deadline` where it has not ended. */
function exitOf({ state, unresolved }: AuditEffect): ExitCode {
  switch (state) {
    case "requested":
    case "prepared":
      return EXIT.deadline;
    case "admitted":
      return unresolved ? EXIT.unresolved : EXIT.deadline;
    case "uncertain": // resolved or not: whoever goes on after 0 counts on an acceptance
      return EXIT.unresolved;
    case "accepted":
      return EXIT.done;
    case "declined":
    case "failed":
    case "no_effect":
      return EXIT.refused;
  }
}
