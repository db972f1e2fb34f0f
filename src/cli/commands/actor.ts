/** `actor revoke`: a login or key that has gone mad loses its authority, under every task. */
import type { Command } from "commander";
import { REVOKE_ACTOR } from "../../store/request.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, change, withChangeOptions } from "../change.ts";
import { addNotBuiltUnder } from "../not-built.ts";

export function addActor(program: Command): void {
  const actor = program
    .command("actor")
    .helpCommand(false)
    .summary("take an actor's authority away")
    .description("Actors: the roles in whose name effects are requested.");
  const revoke = actor
    .command("revoke")
    .summary("take an actor's authority away, under every task")
    .description(
      "Take an actor's authority away, under every task. There is no way back. What it has waiting is declined.",
    )
    .argument("<actor>", "the role's name")
    .action((name: string, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) =>
        change(output, flags, {
          text: REVOKE_ACTOR,
          values: [name, flags.reason],
          done: `revoked actor ${name}`,
          wouldBe: `actor ${name} would be revoked, for good`,
          whatWaits: "declined as revoked",
        }),
      ),
    );
  withChangeOptions(revoke);
  for (const command of [actor, revoke]) withExamples(command, ["actor revoke agent_7 --reason 'its key leaked'"]);
  addNotBuiltUnder(actor, ["add"]);
}
