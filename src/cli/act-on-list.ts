/**
 * Does one thing to each effect of a list, each in a transaction of its own, and reports every line. It may be stopped
 * between two lines, and run again: what was done answers that it is the same.
 */
import { LedgerError } from "../core/error.ts";
import { cleanText } from "../core/text.ts";
import type { Audit } from "../store/audit.ts";
import { type Match, type Matched, readStands, type Stands } from "../store/audit-resolution.ts";
import { wordConnectionError } from "../store/connection.ts";
import { onClient, runChangeOn } from "../store/control.ts";
import type { Connected } from "./connection.ts";
import type { Listed } from "./effect-list.ts";
import { EXIT, type ExitCode, exitCodeOf } from "./exit-code.ts";
import { matchList, type Problem, type Target } from "./match-list.ts";
import type { Output } from "./output.ts";
import { calledBy } from "./short-id.ts";

export interface ListAct {
  readonly match: Match;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  /** What is done, as the SQL's answer `resolved` is said: `resolved`, `risk accepted`. */
  readonly done: (listed: Listed) => string;
  readonly statement: (
    effectId: string,
    listed: Listed,
  ) => { readonly text: string; readonly values: readonly unknown[] };
  /** True where what stands is what the line says, whoever said it first. */
  readonly stands: (stands: Stands, listed: Listed) => boolean;
}

/** What became of a line. `stands`: it was on record already. */
type Answer = "resolved" | "after_risk" | "same" | "stands" | "refused";
const ANSWERS = ["resolved", "after_risk", "same", "stands", "refused"] as const satisfies readonly Answer[];

interface Result {
  readonly answer: Answer;
  readonly problem: Problem | null;
}

/** Acts on each line; returns the exit code. What is no refusal of one line ends the run, and is thrown after the sum. */
export async function actOnList(
  { audit, connectionString }: Connected,
  output: Output,
  listed: readonly Listed[],
  act: ListAct,
): Promise<ExitCode> {
  const targets = await matchList(audit, act.match, listed);
  const counts = new Map<Answer, number>(ANSWERS.map((answer) => [answer, 0]));
  let reached = 0;
  act.signal.addEventListener("abort", () => output.note("stopping after the line that is under way"), { once: true });
  try {
    await onClient(connectionString, "pg-effects resolve", async (client) => {
      for (const target of targets) {
        if (act.signal.aborted) return;
        const result = await actOn(target, act, audit, (change) => runChangeOn<{ answer: Answer }>(client, change));
        reached += 1;
        counts.set(result.answer, (counts.get(result.answer) ?? 0) + 1);
        report(output, target, result, act);
        output.progress(`${reached} of ${targets.length}: ${countWords(counts)}`);
      }
    });
  } finally {
    sayRest(output, targets, reached);
  }
  const exit = reached < targets.length ? EXIT.deadline : (counts.get("refused") ?? 0) > 0 ? EXIT.refused : EXIT.done;
  output.event({
    event: "ended",
    dry_run: act.dryRun,
    ...Object.fromEntries(counts),
    not_reached: targets.length - reached,
    exit,
  });
  output.line(`${countWords(counts) || "nothing was done"}${act.dryRun ? "; a dry run: nothing is changed" : ""}`);
  return exit;
}

async function actOn(
  { listed, effect, problem }: Target,
  { statement, dryRun, stands }: ListAct,
  audit: Audit,
  run: (change: { text: string; values: readonly unknown[]; dryRun: boolean }) => Promise<{ answer: Answer }>,
): Promise<Result> {
  if (!effect) return { answer: "refused", problem };
  try {
    const { answer } = await run({ ...statement(effect.effect_id, listed), dryRun });
    return { answer, problem: null };
  } catch (error) {
    const refusal = refusalOf(error);
    if (RECORDED.has(refusal.code) && stands(await readStands(audit, effect.effect_id), listed)) {
      return { answer: "stands", problem: null };
    }
    return { answer: "refused", problem: refusal };
  }
}

/** not_unresolved and already_resolved: somebody or something settled it before. */
const RECORDED = new Set(["PE110", "PE119"]);

/** A refusal of this one line; anything else ends the run. */
function refusalOf(thrown: unknown): Problem {
  const error = wordConnectionError(thrown);
  if (!(error instanceof LedgerError)) throw error;
  const ofThisLine = exitCodeOf(error.code) === EXIT.refused || error.code === "22023" || error.code === "lock_timeout";
  if (!ofThisLine || error.code === "42501") throw error;
  return { code: error.code, message: error.message, hint: error.hint ?? "" };
}

function report(output: Output, { listed, effect }: Target, { answer, problem }: Result, act: ListAct): void {
  const { line, given } = listed;
  output.event({
    event: "line",
    line,
    given,
    effect_id: effect?.effect_id ?? null,
    name: effect?.name ?? null,
    answer,
    ...(problem && { error: problem }),
  });
  const said = problem ? `refused: ${problem.code}  ${problem.message}` : answerWords(answer, listed, act);
  output.line(cleanText(`line ${line}  ${called(given, effect)}  ${said}`));
}

function called(given: string, effect: Matched | null): string {
  const name = effect && calledBy(effect);
  return name === null || name === given ? given : `${given} (${name})`;
}

function answerWords(answer: Answer, listed: Listed, { done, dryRun }: ListAct): string {
  switch (answer) {
    case "resolved":
      return dryRun ? `would be ${done(listed)}` : done(listed);
    case "after_risk":
      return `${dryRun ? "would be " : ""}${done(listed)}, after its risk was accepted`;
    case "same":
      return "the same as before";
    case "stands":
      return "on record already";
    case "refused":
      return "refused";
  }
}

/** What was not reached, on stderr: also where a fault ends the run. */
function sayRest(output: Output, targets: readonly Target[], reached: number): void {
  output.endProgress();
  const next = targets[reached];
  if (!next) return;
  const rest = targets.length - reached;
  output.note(
    `stopped before line ${next.listed.line}: ${rest} not reached; run the same again, what was done stays the same`,
  );
}

function countWords(counts: ReadonlyMap<Answer, number>): string {
  return [...counts]
    .filter(([, count]) => count > 0)
    .map(([answer, count]) => `${answer.replace("_", " ")} ${count}`)
    .join(", ");
}
