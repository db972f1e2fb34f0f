/** The eight checks of an admission in words: what stands against an effect at each, and the command that helps. */
import type { CheckLine } from "../core/admission.ts";
import type { WaitingFor } from "../core/denial.ts";
import { DENIALS } from "../core/denial.ts";
import type { OperationLine } from "../store/audit-control.ts";
import type { AuditEffect } from "../store/audit-schema.ts";
import { formatMoment } from "./moment.ts";
import { shellWord } from "./shell-word.ts";

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

/** What is said behind a check's `ok` or `no`. */
export function checkWords({ check, denial }: CheckLine, explained: Explained): string {
  if (denial) return denialWords(denial, explained);
  const { effect, operation, now } = explained;
  switch (check) {
    case "operation":
      if (!operation?.protected) return "unprotected";
      return operation.allowed_at
        ? `allowed ${formatMoment(operation.allowed_at, now)} by ${operation.allowed_by}`
        : "";
    case "task":
      return effect.task_path.split(" > ").toReversed().join(" in ");
    case "policy":
      return effect.policy ?? "";
    case "permit":
      return "issued with the admission";
    default:
      return "";
  }
}

/** Nothing, or what the denial says of itself. */
function denialWords({ code, detail }: Standing, { taskNames }: Explained): string {
  const { task = "", unit, left, needed, scope, target, reason } = detail;
  if (unit !== undefined) return `${taskNames.get(task) ?? task} ${unit}: ${left} left, ${needed} needed`;
  if (scope === "all") return `everything is paused: ${reason}`;
  if (scope !== undefined) return `${scope} ${target} is paused: ${reason}`;
  const others = Object.entries(detail).map(([field, value]) => `${field} ${value}`);
  return [code, ...others].join(", ");
}

/** The command that helps, or null where none does. `…` stands for what a person decides. */
export function helpingCommand({ code, detail, waitingFor }: Standing, { taskNames }: Explained): string | null {
  const { task = "", unit, scope, target = "" } = detail;
  if (unit !== undefined) {
    const name = taskNames.get(task);
    return name === undefined ? null : `pg-effects budget set ${shellWord(name)} ${unit}=… --reason …`;
  }
  if (code === "paused") {
    const option = scope === "target" ? "target-prefix" : scope;
    return `pg-effects resume --${option}${scope === "all" ? "" : ` ${shellWord(target)}`} --reason …`;
  }
  return HELPS[waitingFor ?? "nothing"] ?? null;
}

const HELPS: Readonly<Partial<Record<WaitingFor | "nothing", string>>> = {
  recovery: "pg-effects doctor",
};
