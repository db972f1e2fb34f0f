/** `cancel`: declines what is not admitted; of what is, records the wish. It never says that nothing happened. */
import type { Command } from "commander";
import type { Cancelled } from "../../request/request.ts";
import { cancelStatement } from "../../request/request.ts";
import { onClient, runChange } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type Connected, type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { EFFECT_HELP, findEffect, findOwnEffect } from "../find-effect.ts";
import type { Output } from "../output.ts";

export function addCancel(program: Command): void {
  const command = program
    .command("cancel")
    .summary("decline an effect that is not admitted yet")
    .description(
      "Cancel an effect. Before its admission it is declined, and nothing is sent. After it, the wish is recorded, its " +
        "dispatch is told within about a second, and nothing is claimed. Exit codes: 0 declined; 3 it was admitted, and may " +
        "happen or have happened; 4 it had ended.",
    )
    .argument("<effect>", EFFECT_HELP)
    .action((effect: string, _flags: object, self: Command) =>
      conclude<object>(self, (output, flags) => run(output, flags, effect)),
    );
  withExamples(command, ["cancel order/42/charge", "cancel customers/42:receipt"]);
}

const SAID: Readonly<Record<Cancelled, readonly [exit: ExitCode, words: string]>> = {
  declined: [EXIT.done, "declined: nothing was sent, and nothing will be"],
  cancel_requested: [
    EXIT.unresolved,
    "it was admitted before: its dispatch is told within about a second; whether it happens, its outcome will say",
  ],
  ended: [EXIT.refused, "it had ended: nothing is changed"],
};

async function run(output: Output, flags: GlobalFlags, given: string): Promise<ExitCode> {
  return withAudit(flags, async (connected) => {
    const effectId = await idOf(connected, given);
    const { result } = await runChange<{ result: Cancelled }>(connected.connectionString, {
      ...cancelStatement(effectId),
      dryRun: false,
    });
    const [exit, words] = SAID[result];
    output.document({ effect_id: effectId, result });
    output.line(words);
    if (result !== "declined") output.note(`pg-effects show ${effectId}`);
    return exit;
  });
}

async function idOf({ audit, audits, connectionString }: Connected, given: string): Promise<string> {
  if (audits) return (await findEffect(audit, given)).effect_id;
  return onClient(
    connectionString,
    "pg-effects cancel",
    async (client) => (await findOwnEffect(client, given)).effect_id,
  );
}
