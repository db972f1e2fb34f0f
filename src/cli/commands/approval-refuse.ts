/** `approval refuse` and `approval revoke`: a person says no, or takes a yes back. */
import type { Command } from "commander";
import { LedgerError } from "../../core/error.ts";
import { cleanText } from "../../core/text.ts";
import type { Audit } from "../../store/audit.ts";
import { idsThatEnd } from "../../store/audit-policy.ts";
import { REFUSE_EFFECT, REVOKE_APPROVAL } from "../../store/authority.ts";
import { runChange } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { AWAITING_HELP, findAwaitingEffect } from "../find-awaiting.ts";
import type { Output } from "../output.ts";
import { calledBy, shortId } from "../short-id.ts";

/** What effects.revoke_approval returns. */
interface RevokedRow {
  readonly effect_id: string;
  readonly state: string;
  readonly too_late: boolean;
}

export function addRefuse(approval: Command): void {
  const refuse = approval
    .command("refuse")
    .summary("refuse what waits for approval: it is declined")
    .description(
      "Refuse what waits for approval, as the login that says so: it is declined, for good, and nothing is sent.",
    )
    .argument("<effect>", AWAITING_HELP)
    .action((given: string, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) => runRefuse(output, flags, given)),
    );
  withChangeOptions(refuse);
  withExamples(refuse, ["approval refuse order/43/charge --reason 'not this customer'"]);
}

export function addRevoke(approval: Command): void {
  const revoke = approval
    .command("revoke")
    .summary("take an approval back")
    .description(
      "Take an approval back, for good: its effect is not admitted by it any more. It says whether it was admitted before.",
    )
    .argument("<approval>", "its id, or the last eight digits of it, as `approval show` lists them")
    .action((given: string, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) => runRevoke(output, flags, given)),
    );
  withChangeOptions(revoke);
  withExamples(revoke, ["approval revoke 5a3f09c2 --reason 'a mistake'"]);
}

async function runRefuse(output: Output, flags: ChangeFlags & GlobalFlags, given: string): Promise<ExitCode> {
  return withAudit(flags, async (connected) => {
    const dryRun = flags.dryRun === true;
    const effect = await findAwaitingEffect(connected, given);
    const values = [effect.effect_id, flags.reason];
    await runChange(connected.connectionString, { text: REFUSE_EFFECT, values, dryRun });
    output.document({ dry_run: dryRun, effect_id: effect.effect_id, refused: !dryRun });
    const called = `${calledBy(effect)} (${effect.operation} ${effect.version})`;
    output.line(
      cleanText(
        dryRun
          ? `${called} would be refused, for good; nothing is changed`
          : `refused ${called}: it is declined, and nothing was sent`,
      ),
    );
    return EXIT.done;
  });
}

async function runRevoke(output: Output, flags: ChangeFlags & GlobalFlags, given: string): Promise<ExitCode> {
  return withAudit(flags, async ({ audit, connectionString }) => {
    const dryRun = flags.dryRun === true;
    const id = await approvalNamed(audit, given);
    const { result } = await runChange<{ result: RevokedRow }>(connectionString, {
      text: REVOKE_APPROVAL,
      values: [id, flags.reason],
      dryRun,
    });
    output.document({ dry_run: dryRun, approval_id: id, ...result });
    output.line(
      dryRun
        ? `approval ${shortId(id)} would be revoked, for good; nothing is changed`
        : `revoked approval ${shortId(id)}`,
    );
    output.line(
      result.too_late
        ? `  too late for effect ${shortId(result.effect_id)}: it was admitted before, and is ${result.state}`
        : `  in time: effect ${shortId(result.effect_id)} is ${result.state}`,
    );
    return EXIT.done;
  });
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** @throws LedgerError `approval_unknown`, `usage_invalid` */
async function approvalNamed(audit: Audit, given: string): Promise<string> {
  const digits = given.toLowerCase();
  if (UUID.test(digits)) return digits;
  const [id, another] = /^[0-9a-f]{8}$/.test(digits) ? await idsThatEnd(audit, "approval", digits) : [];
  if (id !== undefined && another === undefined) return id;
  if (another !== undefined) {
    throw new LedgerError("usage_invalid", `several approvals end with ${given}`, { hint: "give the whole id" });
  }
  throw new LedgerError("approval_unknown", `no approval goes by ${JSON.stringify(given)}`, {
    hint: "give its id or the last eight digits of it: pg-effects approval show EFFECT",
  });
}
