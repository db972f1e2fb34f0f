/** `actor add` and `actor revoke`: in whose name effects are requested, who speaks for it, and the end of both. */
import type { Command } from "commander";
import { cleanText } from "../../core/text.ts";
import { runChange } from "../../store/control.ts";
import { ADD_ACTOR, REVOKE_ACTOR, REVOKE_SPEAKER } from "../../store/request.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, change, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import type { Output } from "../output.ts";

interface AddFlags {
  readonly reason: string;
  readonly spokenBy?: string;
}

interface RevokeFlags extends ChangeFlags {
  readonly spokenBy?: string;
}

export function addActor(program: Command): void {
  const actor = program
    .command("actor")
    .helpCommand(false)
    .summary("actors: register one, or take its authority away")
    .description(
      "Actors: in whose name effects are requested. A member of the ledger's service role is one at its first request, " +
        "unless the ledger is strict; others are registered by the owner.",
    );
  withExamples(actor, [
    "actor add agent_7 --spoken-by shop_app --reason 'answers customers'",
    "actor revoke agent_7 --reason 'its key leaked'",
  ]);
  addAdd(actor);
  addRevoke(actor);
}

function addAdd(actor: Command): void {
  const add = actor
    .command("add")
    .summary("register an actor, and who speaks for it")
    .description(
      "Register an actor. It is a role, or any name that a login speaks for: with --spoken-by that login may request in " +
        "its name (effects.enqueue, actor =>). Again with another login adds that one.",
    )
    .argument("<actor>", "its name, 1 to 200 characters; the role's, where it is one")
    .option("--spoken-by <login>", "a login that may request in its name")
    .requiredOption("--reason <reason>", "why, for whoever reads the history: 1 to 500 characters")
    .action((name: string, _flags: AddFlags, self: Command) =>
      conclude<AddFlags>(self, (output, flags) => runAdd(output, flags, name)),
    );
  withExamples(add, ["actor add agent_7 --spoken-by shop_app --reason 'answers customers'"]);
}

function addRevoke(actor: Command): void {
  const revoke = actor
    .command("revoke")
    .summary("take an actor's authority away, under every task")
    .description(
      "Take an actor's authority away, under every task. There is no way back. What it has waiting is declined. With " +
        "--spoken-by only that login loses the right to speak for it, and what it asked for is declined.",
    )
    .argument("<actor>", "its name")
    .option("--spoken-by <login>", "the login that speaks for it no longer")
    .action((name: string, _flags: RevokeFlags, self: Command) =>
      conclude<RevokeFlags>(self, (output, flags) => runRevoke(output, flags, name)),
    );
  withChangeOptions(revoke);
  withExamples(revoke, [
    "actor revoke agent_7 --reason 'its key leaked' --dry-run",
    "actor revoke agent_7 --spoken-by shop_app --reason 'moved to another service'",
  ]);
}

async function runAdd(output: Output, flags: AddFlags & GlobalFlags, name: string): Promise<ExitCode> {
  const { reason, spokenBy = null } = flags;
  return withAudit(flags, async ({ connectionString }) => {
    await runChange(connectionString, { text: ADD_ACTOR, values: [name, reason, spokenBy], dryRun: false });
    output.document({ actor: name, spoken_by: spokenBy });
    output.line(cleanText(spokenBy === null ? `actor ${name} is registered` : `${spokenBy} speaks for actor ${name}`));
    return EXIT.done;
  });
}

async function runRevoke(output: Output, flags: RevokeFlags & GlobalFlags, name: string): Promise<ExitCode> {
  const { reason, spokenBy } = flags;
  if (spokenBy !== undefined) {
    return change(output, flags, {
      text: REVOKE_SPEAKER,
      values: [name, spokenBy, reason],
      done: `${spokenBy} speaks for actor ${name} no longer`,
      wouldBe: `${spokenBy} would speak for actor ${name} no longer`,
      whatWaits: `of ${name}; what ${spokenBy} asked for is declined as revoked`,
    });
  }
  return change(output, flags, {
    text: REVOKE_ACTOR,
    values: [name, reason],
    done: `revoked actor ${name}`,
    wouldBe: `actor ${name} would be revoked, for good`,
    whatWaits: "declined as revoked",
  });
}
