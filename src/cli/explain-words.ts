/** The eight checks of an admission in words: what stands against an effect at each, and the command that helps. */
import type { CheckLine } from "../core/admission.ts";
import { DENIALS } from "../core/denial.ts";
import type { OperationLine } from "../store/audit-control.ts";
import type { AuditEffect } from "../store/audit-schema.ts";
import { formatMoment } from "./moment.ts";
import { shellWord } from "./shell-word.ts";
import { shortId } from "./short-id.ts";

/** What stands against an effect, as an explanation has it. */
export type Standing = NonNullable<CheckLine["denial"]>;

export interface Explained {
  readonly effect: AuditEffect;
  readonly operation: OperationLine | undefined;
  /** Names by id, of the tasks that a budget is of. */
  readonly taskNames: ReadonlyMap<string, string>;
  readonly now: Date;
}

/** The one that decides: of those that stand, the first in the denials' order of precedence. */
export function deciding(lines: readonly CheckLine[]): Standing | null {
  const codes = Object.keys(DENIALS);
  const standing = lines.flatMap(({ denial }) => denial ?? []);
  return standing.toSorted((a, b) => codes.indexOf(a.code) - codes.indexOf(b.code))[0] ?? null;
}

/** What is said behind a check's `ok` or `no`: its numbers, whichever way it stands. */
export function checkWords({ check, denial, standing }: CheckLine, explained: Explained): string {
  if (denial) return denialWords(denial, explained);
  const { effect, operation, now } = explained;
  switch (check) {
    case "operation":
      if (standing.protection !== "protected") return "unprotected";
      return operation?.allowed_at
        ? `allowed ${formatMoment(operation.allowed_at, now)} by ${operation.allowed_by}`
        : "protected";
    case "task":
      return effect.task_path.split(" > ").toReversed().join(" in ");
    case "policy":
      return policyWords(standing);
    case "permit":
      return "issued with the admission";
    case "budget":
      return Object.entries(standing)
        .map(([unit, words]) => `${unit} ${words}`)
        .join(", ");
    case "doubt":
      return [
        standing.open && `${standing.open} open`,
        standing.lane && `lane ${standing.lane} is free`,
        standing.follows && `nothing is said against following ${shortId(standing.follows)}`,
      ]
        .filter(Boolean)
        .join(", ");
    default:
      return "";
  }
}

/** `charges, 812 admissions left, 1 of 1 approvals` */
function policyWords({ policy, admissions_left, approvals }: CheckLine["standing"]): string {
  return [
    policy,
    admissions_left && `${admissions_left} admissions left`,
    approvals === undefined || approvals === "automatic" ? approvals : `${approvals} approvals`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** Nothing, or what the denial says of itself. */
function denialWords({ code, detail }: Standing, { taskNames }: Explained): string {
  const { task = "", unit, left, needed, scope, target, reason, policy, counted, not_counted, open, lane } = detail;
  if (code === "budget_missing") return `${unit} is budgeted nowhere above it`;
  if (unit !== undefined) return `${taskNames.get(task) ?? task} ${unit}: ${left} left, ${needed} needed`;
  if (scope === "all") return `everything is paused: ${reason}`;
  if (scope !== undefined) return `${scope} ${target} is paused: ${reason}`;
  if (code === "approval_required") {
    return [
      `${policy}, ${counted} of ${needed} approvals`,
      not_counted && `not counted: ${uncountedWords(not_counted)}`,
    ]
      .filter(Boolean)
      .join("; ");
  }
  if (code === "doubt_limit") return `${policy}: ${open} of ${detail.open_max} open`;
  if (code === "predecessor_accepted") return `there is evidence that ${shortId(detail.predecessor ?? "")} happened`;
  if (code === "predecessor_contradicted") return `evidence disagrees about ${shortId(detail.predecessor ?? "")}`;
  if (code === "lane_busy") return `lane ${lane} has an open effect`;
  if (code === "implementation_changed" && detail.allowed !== undefined) {
    return `allowed is ${detail.allowed.slice(0, DIGEST_DIGITS)}, registered ${detail.runs?.slice(0, DIGEST_DIGITS)}`;
  }
  const others = Object.entries(detail).map(([field, value]) => `${field} ${value}`);
  return [code, ...others].join(", ");
}

/** Implementations are recognised by their first digits; `--json` has them whole. */
const DIGEST_DIGITS = 12;

/** `ID signature_wrong, ID key_revoked` with short ids, as `approval show` lists them. */
function uncountedWords(notCounted: string): string {
  return notCounted
    .split(", ")
    .map((each) => each.split(" "))
    .map(([id = "", why = ""]) => `${shortId(id)} ${why.replaceAll("_", " ")}`)
    .join(", ");
}

/** What its next look comes to. */
export function verdictWords({ code, waitingFor }: Standing): string {
  if (waitingFor !== null) return `waits for ${waitingFor}`;
  // What would wait is declined at once where the request says so (effects.enqueue, on_denial).
  return DENIALS[code] === null ? `will be declined: ${code}` : `would be declined: ${code}, as its request says`;
}

/** The command that helps, or null where none does. `…` stands for what a person decides. */
export function helpingCommand(
  { code, detail, waitingFor }: Standing,
  { effect, taskNames }: Explained,
): string | null {
  const { task = "", unit, scope, target = "" } = detail;
  const { operation, operation_version: version } = effect;
  if (unit !== undefined) {
    const name = code === "budget_missing" ? effect.task_name : taskNames.get(task);
    return name === undefined ? null : `pg-effects budget set ${shellWord(name)} ${unit}=… --reason …`;
  }
  switch (waitingFor) {
    case "recovery":
      return "pg-effects doctor";
    case "paused": {
      const option = scope === "target" ? "target-prefix" : scope;
      return `pg-effects resume --${option}${scope === "all" ? "" : ` ${shellWord(target)}`} --reason …`;
    }
    case "approval":
      return `pg-effects approval approve ${shortId(effect.effect_id)} --key …`;
    case "doubt":
      return `pg-effects reconcile --operation ${operation} --deadline 15m`;
    case "lane":
      return "pg-effects unresolved";
    case "worker":
      return detail.allowed === undefined
        ? "pg-effects worker"
        : `pg-effects operation allow ${operation} ${version} --reason …`;
    default:
      return null;
  }
}
