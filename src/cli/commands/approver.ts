/** `approver add`, `list` and `revoke`: by whose keys effects may be approved. */
import type { Command } from "commander";
import { type Audit, readClock } from "../../store/audit.ts";
import { idsThatEnd, listApprovers } from "../../store/audit-policy.ts";
import { ADD_APPROVER, REVOKE_APPROVER } from "../../store/authority.ts";
import { runChange } from "../../store/control.ts";
import { conclude, withExamples } from "../action.ts";
import { type ChangeFlags, change, withChangeOptions } from "../change.ts";
import { type GlobalFlags, withAudit } from "../connection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { readPublicKey } from "../key-option.ts";
import { formatMoment } from "../moment.ts";
import { wholeNumber } from "../number.ts";
import type { Output } from "../output.ts";
import { shortId } from "../short-id.ts";
import { tableLines } from "../table.ts";

interface AddFlags {
  readonly key: string;
  readonly reason: string;
}

interface ListFlags {
  readonly limit: number;
}

export function addApprover(program: Command): void {
  const approver = program
    .command("approver")
    .helpCommand(false)
    .summary("approvers: add, list, revoke")
    .description(
      "Approvers: people by their keys. A policy names people; each may have several keys. An approval is a signature, and " +
        "a person who signs twice is one.",
    );
  withExamples(approver, ["approver add ana --key ana.pub.pem --reason 'head of payments'", "approver list"]);
  addAdd(approver);
  addList(approver);
  addRevoke(approver);
}

function addAdd(approver: Command): void {
  const add = approver
    .command("add")
    .summary("register an approver's public key")
    .description(
      "Register an approver's public key (Ed25519), and print the key's id. The name is the person's role, where there is " +
        "one, so that nobody approves a request of his own.",
    )
    .argument("<approver>", "the person's name, as policies name it")
    .requiredOption("--key <file|hex>", "what `openssl pkey -in key.pem -pubout` writes, or 64 hex digits")
    .requiredOption("--reason <reason>", "why, for whoever reads the history: 1 to 500 characters")
    .action((name: string, _flags: AddFlags, self: Command) =>
      conclude<AddFlags>(self, (output, flags) => runAdd(output, flags, name)),
    );
  withExamples(add, ["approver add ana --key ana.pub.pem --reason 'head of payments'"]);
}

function addList(approver: Command): void {
  const list = approver
    .command("list")
    .summary("every key, whose it is, and whether it stands")
    .description("Every key, live ones first: whose it is, who added it, and whether it stands.")
    .option("--limit <n>", "at most so many", wholeNumber(1, 10_000), 100)
    .action((_flags: ListFlags, self: Command) => conclude<ListFlags>(self, runList));
  withExamples(list, ["approver list", "approver list --json"]);
}

function addRevoke(approver: Command): void {
  const revoke = approver
    .command("revoke")
    .summary("take a key away, or all of a person's")
    .description(
      "Take a key away, by its id, or every key of an approver, by the name. There is no way back. What they signed and was " +
        "not admitted yet counts no more.",
    )
    .argument("<approver>", "the person's name, a key's id, or the last eight digits of one")
    .action((given: string, _flags: ChangeFlags, self: Command) =>
      conclude<ChangeFlags>(self, (output, flags) => runRevoke(output, flags, given)),
    );
  withChangeOptions(revoke);
  withExamples(revoke, ["approver revoke ana --reason 'left the company'", "approver revoke 5a3f09c2 --reason lost"]);
}

async function runAdd(output: Output, flags: AddFlags & GlobalFlags, name: string): Promise<ExitCode> {
  const publicKey = await readPublicKey(flags.key);
  return withAudit(flags, async ({ connectionString }) => {
    const { key_id } = await runChange<{ key_id: string }>(connectionString, {
      text: ADD_APPROVER,
      values: [name, publicKey, flags.reason],
      dryRun: false,
    });
    output.document({ key_id, approver: name, public_key: publicKey });
    output.line(key_id);
    return EXIT.done;
  });
}

async function runList(output: Output, { limit, ...flags }: ListFlags & GlobalFlags): Promise<ExitCode> {
  return withAudit(flags, async ({ audit }) => {
    const keys = await listApprovers(audit, limit);
    const now = await readClock(audit);
    output.document(keys);
    const lines = tableLines(
      [
        { title: "approver", cell: ({ approver }) => approver },
        { title: "key", cell: ({ key_id }) => key_id },
        { title: "added", cell: ({ added_at, added_by }) => `${formatMoment(added_at, now)} by ${added_by}` },
        {
          title: "standing",
          cell: ({ revoked_at }) => (revoked_at === null ? "live" : `revoked ${formatMoment(revoked_at, now)}`),
        },
      ],
      keys,
    );
    for (const line of lines) output.line(line);
    if (keys.length === 0) output.note("there is no approver: pg-effects approver add");
    if (keys.length === limit) output.note(`the first ${limit}; --limit shows more`);
    return EXIT.done;
  });
}

async function runRevoke(output: Output, flags: ChangeFlags & GlobalFlags, given: string): Promise<ExitCode> {
  const named = await withAudit(flags, ({ audit }) => nameOrKey(audit, given));
  const what = named === given ? given : `key ${shortId(named)}`;
  return change(output, flags, {
    text: REVOKE_APPROVER,
    values: [named, flags.reason],
    done: `revoked approver ${what}`,
    wouldBe: `approver ${what} would be revoked, for good`,
    whatWaits: `with an approval of ${what}, which counts no more`,
  });
}

/** A key's id for its last eight digits, where there is one such key; else what was given. */
async function nameOrKey(audit: Audit, given: string): Promise<string> {
  if (!/^[0-9a-f]{8}$/.test(given)) return given;
  const [id, another] = await idsThatEnd(audit, "key", given);
  return id !== undefined && another === undefined ? id : given;
}
