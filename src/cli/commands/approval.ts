/** `approval list` and `approval show`: what waits for a person, and what people said. The other verbs have files of their own. */
import type { Command } from "commander";
import { readClock } from "../../store/audit.ts";
import { listApprovals } from "../../store/audit-policy.ts";
import type { AuditApproval, AwaitingApproval } from "../../store/audit-schema-policy.ts";
import { listAwaiting } from "../../store/awaiting.ts";
import { conclude, withExamples } from "../action.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { DURATION_MS_MAX, parseDuration } from "../duration.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { EFFECT_HELP, findEffect } from "../find-effect.ts";
import { formatMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { calledBy, shortId } from "../short-id.ts";
import { amountWords } from "../standing-words.ts";
import { tableLines } from "../table.ts";
import { lookUntil, watching } from "../watch.ts";
import { addApprove } from "./approval-approve.ts";
import { addRefuse, addRevoke } from "./approval-refuse.ts";
import { addStatement } from "./approval-statement.ts";

interface ListFlags {
  /** True where no duration was given. */
  readonly wait?: string | true;
  readonly limit: number;
}

export function addApproval(program: Command): void {
  const approval = program
    .command("approval")
    .helpCommand(false)
    .summary("approvals: list, statement, approve, refuse, show, revoke")
    .description(
      "Approvals: what waits for a person's signature. An approval is of exactly what is bound, by an Ed25519 key that the " +
        "owner registered; it may be signed anywhere, with openssl alone.",
    );
  withExamples(approval, ["approval list", "approval approve order/43/charge --key ana.pem"]);
  addList(approval);
  addStatement(approval);
  addApprove(approval);
  addRefuse(approval);
  addShow(approval);
  addRevoke(approval);
}

function addList(approval: Command): void {
  const list = approval
    .command("list")
    .summary("what waits for approval")
    .description("What is prepared and waits under a policy that wants approvals; what expires first is first.")
    .option(
      "--wait [duration]",
      "wait until something does, at most so long: 30s, 15m (default: 24h); then exit code 5",
    )
    .option("--limit <n>", "at most so many", wholeNumber(1, 10_000), 50)
    .action((_flags: ListFlags, self: Command) => conclude<ListFlags>(self, runList));
  withExamples(list, ["approval list", "approval list --wait 15m --json"]);
}

function addShow(approval: Command): void {
  const show = approval
    .command("show")
    .summary("who approved or refused an effect, and whether it counted")
    .description(
      "Every approval and refusal of an effect, and whether its admission counted it; the ids are for `revoke`.",
    )
    .argument("<effect>", EFFECT_HELP)
    .action((given: string, _flags: object, self: Command) =>
      conclude<object>(self, (output, flags) => runShow(output, flags, given)),
    );
  withExamples(show, ["approval show order/43/charge"]);
}

async function runList(output: Output, { wait, limit, ...flags }: ListFlags & GlobalFlags): Promise<ExitCode> {
  const timeoutMs = wait === undefined ? 0 : wait === true ? DURATION_MS_MAX : parseDuration(wait);
  return withAudit(flags, ({ audit }) =>
    watching(async (signal) => {
      const look = () => listAwaiting(audit, limit);
      const awaiting = (await lookUntil(async () => nothingIfEmpty(await look()), { timeoutMs, signal })) ?? [];
      const now = await readClock(audit);
      output.document(awaiting);
      for (const line of awaitingLines(awaiting, now)) output.line(line);
      if (awaiting.length === limit) output.note(`the first ${limit} to expire; --limit shows more`);
      if (awaiting.length > 0) return EXIT.done;
      output.note("nothing awaits approval");
      if (wait === undefined) return EXIT.done;
      return signal.aborted ? EXIT.interrupted : EXIT.deadline;
    }),
  );
}

function nothingIfEmpty<Row>(rows: readonly Row[]): readonly Row[] | null {
  return rows.length === 0 ? null : rows;
}

function awaitingLines(awaiting: readonly AwaitingApproval[], now: Date): readonly string[] {
  return tableLines(
    [
      { title: "effect", cell: ({ effect_id }) => shortId(effect_id) },
      { title: "name", cell: ({ name }) => name ?? "" },
      { title: "operation", cell: ({ operation, version }) => `${operation} ${version}` },
      { title: "preview", cell: ({ preview }) => preview },
      { title: "maximum cost", cell: ({ maximum_cost }) => amountWords(maximum_cost) },
      { title: "requested by", cell: ({ actor, requested_by }) => byWords(actor, requested_by) },
      { title: "policy", cell: ({ policy }) => policy },
      {
        title: "approvals",
        cell: ({ approvals_submitted, approvals_needed, approvers }) =>
          `${approvals_submitted} of ${approvals_needed}: ${approvers.join(", ")}`,
      },
      { title: "expires", cell: ({ expires_at }) => formatMoment(expires_at, now) },
    ],
    awaiting,
  );
}

function byWords(actor: string, login: string): string {
  return actor === login ? actor : `${actor} (${login})`;
}

/** Far above what one effect has. */
const APPROVALS_MAX = 1_000;

async function runShow(output: Output, flags: GlobalFlags, given: string): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const effect = await findEffect(audit, given);
    const approvals = await listApprovals(audit, effect.effect_id, APPROVALS_MAX);
    const now = await readClock(audit);
    output.document({ effect, approvals });
    output.line(
      `${calledBy(effect)}  ${effect.operation} ${effect.operation_version}, policy ${effect.policy ?? "none"}`,
    );
    const lines = tableLines(
      [
        { title: "approval", cell: ({ approval_id }) => shortId(approval_id) },
        { title: "verdict", cell: ({ verdict }) => verdict },
        { title: "approver", cell: ({ approver }) => approver },
        { title: "key", cell: ({ key_id }) => (key_id === null ? "" : shortId(key_id)) },
        { title: "submitted", cell: ({ at, submitted_by }) => `${formatMoment(at, now)} by ${submitted_by}` },
        { title: "counted", cell: countedWords },
        { title: "reason", cell: ({ reason }) => reason ?? "" },
      ],
      approvals,
    );
    for (const line of lines) output.line(`  ${line}`);
    if (approvals.length === 0) output.note("nobody approved or refused it");
    return EXIT.done;
  });
}

function countedWords({ verdict, counted, counted_not }: AuditApproval): string {
  if (verdict === "refused") return "";
  return counted ? "yes" : (counted_not?.replaceAll("_", " ") ?? "no");
}
