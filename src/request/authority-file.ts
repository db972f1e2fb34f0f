/**
 * Reads a file of authority, the form of what is reviewed (docs/authority.md). Each fault is named with its path, and a key
 * that stands twice is one: a reviewer may have read the other.
 */
import { LedgerError } from "../core/error.ts";
import { repeatedKey } from "../core/repeated-key.ts";
import type { WantedAuthority } from "../core/wanted-authority.ts";
import { authorityForm } from "./authority-form.ts";

/** Faults that are named in one message. */
const FAULTS_MAX = 10;

/** A file, read. */
export interface AuthorityFile {
  /** Why, where the file says so. */
  readonly reason: string | undefined;
  readonly wanted: WantedAuthority;
}

/** Reads a file's text. @throws LedgerError `json_invalid`, `authority_file_invalid` with the path of each fault */
export function parseAuthorityFile(text: string): AuthorityFile {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new LedgerError("json_invalid", `the file is not JSON: ${(error as Error).message}`, {
      hint: "docs/authority.md shows the form",
    });
  }
  const repeated = repeatedKey(text);
  if (repeated !== null) throw invalid([`${repeated}: stands twice in one object`]);
  const parsed = authorityForm.safeParse(given);
  if (!parsed.success) {
    throw invalid(parsed.error.issues.map(({ path, message }) => `${pathWords(path)}: ${message}`));
  }
  const { ledger, actors, tasks, operations, approvers, policies, reason } = parsed.data;
  return {
    reason,
    wanted: {
      ledger: { name: ledger.name, strict: ledger.strict },
      actors,
      tasks: tasks.map(({ subject, actor, deadline, ...task }) => ({ ...task, subject, actor, deadline })),
      operations: operations.map(({ versions, ...operation }) => ({
        ...operation,
        versions: versions.map(({ allowed_implementation, ...each }) => ({ ...each, allowed_implementation })),
      })),
      approvers: approvers.map(({ public_key, ...each }) => ({ ...each, public_key })),
      policies,
    },
  };
}

/** `policies[0].costs.usd_cents` */
function pathWords(path: readonly PropertyKey[]): string {
  const words = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`)).join("");
  return words.replace(/^\./, "") || "the file";
}

function invalid(faults: readonly string[]): LedgerError {
  const more = faults.length > FAULTS_MAX ? `; and ${faults.length - FAULTS_MAX} more` : "";
  return new LedgerError("authority_file_invalid", `${faults.slice(0, FAULTS_MAX).join("; ")}${more}`, {
    hint: "nothing was changed; docs/authority.md shows the form",
  });
}
