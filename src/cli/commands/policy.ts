/** `policy list` and `policy revoke`: what may be admitted of protected operations, and the end of that. */
import type { Command } from "commander";
import { readClock } from "../../store/audit.ts";
import { listPolicies } from "../../store/audit-policy.ts";
import { REVOKE_POLICY } from "../../store/authority.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, change, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { coversWords, standsWords, usedWords, wantsWords } from "../policy-words.ts";
import { tableLines } from "../table.ts";
import { addPolicyAdd } from "./policy-add.ts";

interface ListFlags {
  readonly limit: number;
}

export function addPolicy(program: Command): void {
  const policy = program
    .command("policy")
    .helpCommand(false)
    .summary("policies: add, list, revoke")
    .description(
      "Policies: which effects of a protected operation may be admitted. Of those that cover an effect, one that wants " +
        "approval goes before one that does not, then the narrower. A policy is never changed: it is revoked, and another added.",
    );
  withExamples(policy, ["policy list", "policy revoke charges --reason 'INC-91' --dry-run"]);
  addPolicyAdd(policy);
  addList(policy);
  addRevoke(policy);
}

function addList(policy: Command): void {
  const list = policy
    .command("list")
    .summary("what each covers, wants, and has used")
    .description("The owner's policies, live ones first: what each covers, what it wants, and what was used of it.")
    .option("--limit <n>", "at most so many", wholeNumber(1, 10_000), 100)
    .action((_flags: ListFlags, self: Command) => conclude<ListFlags>(self, runList));
  withExamples(list, ["policy list", "policy list --json"]);
}

function addRevoke(policy: Command): void {
  const revoke = policy
    .command("revoke")
    .summary("nothing more is admitted under a policy")
    .description(
      "Revoke a policy: nothing more is admitted under it, and its name is not used again. There is no way back. What " +
        "waits under it is declined; what is in flight is beyond recall, and is listed.",
    )
    .argument("<policy>", "its name")
    .action((name: string, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) =>
        change(output, flags, {
          text: REVOKE_POLICY,
          values: [name, flags.reason],
          done: `revoked policy ${name}`,
          wouldBe: `policy ${name} would be revoked, for good`,
          whatWaits: "declined as revoked",
        }),
      ),
    );
  withChangeOptions(revoke);
  withExamples(revoke, ["policy revoke charges --reason 'INC-91' --dry-run"]);
}

async function runList(output: Output, { limit, ...flags }: ListFlags & GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const policies = await listPolicies(audit, limit);
    const now = await readClock(audit);
    output.document(policies);
    const lines = tableLines(
      [
        { title: "policy", cell: ({ name }) => name },
        { title: "covers", cell: coversWords },
        { title: "wants", cell: wantsWords },
        { title: "used", cell: usedWords },
        { title: "standing", cell: (each) => standsWords(each, now) },
      ],
      policies,
    );
    for (const line of lines) output.line(line);
    if (policies.length === 0) output.note("there is no policy: nothing of a protected operation is admitted");
    if (policies.length === limit) output.note(`the first ${limit}; --limit shows more`);
    return EXIT.done;
  });
}
