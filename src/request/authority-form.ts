/** The form of a file of authority (docs/authority.md): what may stand in it, and what a policy there leaves to its defaults. */
import { z } from "zod";
import { AMOUNT_MAX, UNIT_PATTERN } from "../core/amount.ts";
import { publicKeyFrom } from "../core/approver-key.ts";
import { LedgerError } from "../core/error.ts";
import type { PolicyRules, WantedPolicy } from "../core/wanted-authority.ts";

const name = z.string().min(1).max(200);
const operationName = z.string().regex(/^[a-z][a-z0-9_]{0,62}$/, "is no operation's name");
const version = z.int().positive();
const revoked = z.literal(true).optional();
const moment = z.iso.datetime({ offset: true }).transform((text) => new Date(text));
const digits = z
  .string()
  .regex(/^(0|[1-9][0-9]{0,18})$/, "is no amount: give digits in quotes")
  .refine((text) => BigInt(text) <= AMOUNT_MAX, `is above ${AMOUNT_MAX}`);
const count = digits.refine((text) => text !== "0", "is 0");
const amounts = z.record(z.string().regex(UNIT_PATTERN, "is no unit's name"), digits);
const publicKey = z.string().transform((text, context) => {
  try {
    return publicKeyFrom(text).toString("hex");
  } catch (error) {
    // Its words only: what was given may be a private key.
    context.addIssue(error instanceof LedgerError ? error.message : "is no public key");
    return z.NEVER;
  }
});

const speaker = z.union([
  name.transform((login) => ({ login, revoked: false })),
  z.strictObject({ login: name, revoked: z.literal(true) }),
]);

const policy = z
  .strictObject({
    name: name.refine((text) => text !== "ordinary", "is the built-in policy's name"),
    operation: operationName.optional(),
    version: version.optional(),
    task: name.optional(),
    actor: name.optional(),
    target: z.string().min(1).optional(),
    target_prefix: z.string().min(1).optional(),
    costs: amounts.optional(),
    admissions_max: count.optional(),
    open_max: count.optional(),
    approvals_needed: z.int().min(0).max(16).optional(),
    approvers: z.array(name).optional(),
    requester_excluded: z.boolean().optional(),
    precondition_enforced: z.boolean().optional(),
    prepared_within_ms: z.int().positive().optional(),
    expires_at: moment.optional(),
    revoked,
  })
  .superRefine((given, context) => {
    if (given.revoked) return; // its rules may stay in the file: nothing of them is looked at
    for (const field of ["operation", "version"] as const) {
      if (given[field] === undefined) context.addIssue({ code: "custom", path: [field], message: "is missing" });
    }
    if (given.target !== undefined && given.target_prefix !== undefined) {
      context.addIssue({ code: "custom", path: ["target_prefix"], message: "target is given, too" });
    }
  })
  .transform(
    ({ revoked: over, ...given }): WantedPolicy => ({ name: given.name, rules: over ? null : rulesOf(given) }),
  );

/** A whole file. */
export const authorityForm = z
  .strictObject({
    format: z.literal("pg-effects/authority/1"),
    reason: z.string().regex(/\S/).max(500).optional(),
    ledger: z.strictObject({ name: z.string().optional(), strict: z.boolean().optional() }).default({}),
    actors: z
      .array(z.strictObject({ actor: name, spoken_by: z.array(speaker).default([]), revoked: flag() }))
      .default([]),
    tasks: z
      .array(
        z.strictObject({
          name,
          subject: z.string().optional(),
          actor: name.optional(),
          deadline: moment.optional(),
          budgets: amounts.default({}),
          revoked: flag(),
        }),
      )
      .default([]),
    operations: z
      .array(
        z.strictObject({
          operation: operationName,
          protected: flag(),
          versions: z
            .array(
              z.strictObject({
                version,
                allowed_implementation: z
                  .string()
                  .regex(/^[0-9a-f]{64}$/, "is no digest: 64 hex digits, as `operation list --json` prints them")
                  .optional(),
                withdrawn: flag(),
              }),
            )
            .default([]),
        }),
      )
      .default([]),
    approvers: z
      .array(
        z
          .strictObject({ approver: name, public_key: publicKey.optional(), revoked: flag() })
          .refine((each) => each.public_key !== undefined || each.revoked, {
            path: ["public_key"],
            message: "is missing",
          }),
      )
      .default([]),
    policies: z.array(policy).default([]),
  })
  .superRefine((file, context) => {
    const twice = (part: keyof typeof file, names: readonly string[]) => {
      for (const [place, each] of names.entries()) {
        if (names.indexOf(each) === place) continue;
        context.addIssue({ code: "custom", path: [part, place], message: `${each} stands in the file twice` });
      }
    };
    twice(
      "actors",
      file.actors.map(({ actor }) => actor),
    );
    twice(
      "tasks",
      file.tasks.map((each) => each.name),
    );
    twice(
      "operations",
      file.operations.map(({ operation }) => operation),
    );
    twice(
      "policies",
      file.policies.map((each) => each.name),
    );
    twice(
      "approvers",
      file.approvers.map(({ approver, public_key = "" }) => `${approver} ${public_key}`.trim()),
    );
  });

/** True where it stands in the file, where nothing but true may stand: these have no way back. */
function flag() {
  return z
    .literal(true)
    .optional()
    .transform((given) => given === true);
}

type GivenPolicy = Omit<z.input<typeof policy>, "expires_at" | "revoked"> & { readonly expires_at?: Date | undefined };

function rulesOf(given: GivenPolicy): PolicyRules {
  const { target, target_prefix } = given;
  return {
    operation: given.operation ?? "",
    version: given.version ?? 0,
    task: given.task ?? "default",
    actor: given.actor ?? null,
    target: target ?? target_prefix ?? null,
    target_match: target_prefix !== undefined ? "prefix" : target !== undefined ? "exact" : null,
    costs: given.costs ?? {},
    admissions_max: given.admissions_max ?? null,
    open_max: given.open_max ?? null,
    approvals_needed: given.approvals_needed ?? 0,
    approvers: given.approvers ?? [],
    requester_excluded: given.requester_excluded ?? true,
    precondition_enforced: given.precondition_enforced ?? false,
    prepared_within_ms: given.prepared_within_ms ?? null,
    expires_at: given.expires_at ?? null,
  };
}
