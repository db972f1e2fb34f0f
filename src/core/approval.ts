/**
 * Approvals: a registered approver's Ed25519 signature over one binding's digest, its maximum cost and an expiry, in one
 * ledger and recovery epoch (protocol, sections 1 and 4). A statement is detached: whoever holds the key signs its bytes,
 * anywhere. Here it is read and verified; the database, which can do neither, keeps it as it came.
 */
import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { AMOUNT_MAX, type Amounts, amountsFromJson, UNIT_PATTERN } from "./amount.ts";

/** The first line of every statement: what it is, in which version of its form. */
export const STATEMENT_PREFIX = "pg-effects/approval/1\n";

/** What an approver signs. */
export interface ApprovalStatement {
  readonly ledger: string;
  readonly epoch: string;
  readonly effect: string;
  readonly operation: string;
  readonly version: number;
  /** Of the binding, in hex. */
  readonly digest: string;
  readonly maximumCost: Amounts;
  readonly expiresAtMs: number;
  readonly statedAtMs: number;
}

/** Reads a statement's bytes; `null` where they are not one. The order of its keys does not matter: its bytes are signed. */
export function readStatement(bytes: Uint8Array): ApprovalStatement | null {
  const text = Buffer.from(bytes).toString("utf8");
  if (!text.startsWith(STATEMENT_PREFIX)) return null;
  let body: unknown;
  try {
    body = JSON.parse(text.slice(STATEMENT_PREFIX.length));
  } catch {
    return null;
  }
  return isStatementBody(body)
    ? {
        ledger: body.ledger,
        epoch: body.epoch,
        effect: body.effect,
        operation: body.operation,
        version: body.version,
        digest: body.digest,
        maximumCost: amountsFromJson(body.maximum_cost),
        expiresAtMs: body.expires_at_ms,
        statedAtMs: body.stated_at_ms,
      }
    : null;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const text = (pattern: RegExp) => (value: unknown) => typeof value === "string" && pattern.test(value);
const wholeNumber = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;

/** Every field of a statement's body, and what it may hold; a body has these and no others. */
const FIELDS: Readonly<Record<keyof StatementBody, (value: unknown) => boolean>> = {
  digest: text(/^[0-9a-f]{64}$/),
  effect: text(UUID),
  epoch: text(UUID),
  expires_at_ms: wholeNumber,
  ledger: text(UUID),
  maximum_cost: isCost,
  operation: text(/^[a-z][a-z0-9_]{0,62}$/),
  stated_at_ms: wholeNumber,
  version: wholeNumber,
};

interface StatementBody {
  readonly digest: string;
  readonly effect: string;
  readonly epoch: string;
  readonly expires_at_ms: number;
  readonly ledger: string;
  readonly maximum_cost: Readonly<Record<string, string>>;
  readonly operation: string;
  readonly stated_at_ms: number;
  readonly version: number;
}

function isStatementBody(body: unknown): body is StatementBody {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return false;
  const fields = Object.entries(FIELDS);
  return (
    Object.keys(body).length === fields.length &&
    fields.every(([field, holds]) => holds((body as Record<string, unknown>)[field]))
  );
}

function isCost(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(
    ([unit, digits]) =>
      UNIT_PATTERN.test(unit) &&
      typeof digits === "string" &&
      /^(0|[1-9][0-9]{0,18})$/.test(digits) &&
      BigInt(digits) <= AMOUNT_MAX,
  );
}

/** True where the signature over these bytes is of this key. @param publicKey 32 bytes (RFC 8032) */
export function isSignedBy(publicKey: Uint8Array, statement: Uint8Array, signature: Uint8Array): boolean {
  return publicKey.length === 32 && signature.length === 64 && verify(null, statement, keyOf(publicKey), signature);
}

/** An Ed25519 public key of its 32 bytes (RFC 8037). */
export function keyOf(publicKey: Uint8Array): KeyObject {
  const x = Buffer.from(publicKey).toString("base64url");
  return createPublicKey({ format: "jwk", key: { kty: "OKP", crv: "Ed25519", x } });
}

/** An approval as it was submitted, with its key as it stands. */
export interface ApprovalFacts {
  readonly approvalId: string;
  readonly approver: string;
  readonly publicKey: Uint8Array;
  readonly keyRevoked: boolean;
  readonly revoked: boolean;
  readonly statement: Uint8Array;
  readonly signature: Uint8Array;
}

/** What an approval is measured against. */
export interface Approvable {
  readonly nowMs: number;
  readonly ledger: string;
  readonly epoch: string;
  readonly effectId: string;
  /** Of the binding that would be admitted, in hex. */
  readonly digest: string;
  readonly cost: Amounts;
  /** Who asked: actor and login. */
  readonly requesters: readonly string[];
  readonly policy: { readonly approvers: readonly string[]; readonly requesterExcluded: boolean };
}

/** Why an approval does not count. */
export type NotCounted =
  | "approval_revoked"
  | "key_revoked"
  | "approver_not_named"
  | "approver_is_requester"
  | "statement_unreadable"
  | "signature_wrong"
  | "ledger_differs"
  | "epoch_differs"
  | "effect_differs"
  | "binding_differs"
  | "cost_above"
  | "approval_expired";

/** Why an approval does not count for a binding, or `null` where it does. */
export function whyNotCounted(approval: ApprovalFacts, wanted: Approvable): NotCounted | null {
  if (approval.revoked) return "approval_revoked";
  if (approval.keyRevoked) return "key_revoked";
  if (!wanted.policy.approvers.includes(approval.approver)) return "approver_not_named";
  if (wanted.policy.requesterExcluded && wanted.requesters.includes(approval.approver)) return "approver_is_requester";
  const statement = readStatement(approval.statement);
  if (!statement) return "statement_unreadable";
  if (!isSignedBy(approval.publicKey, approval.statement, approval.signature)) return "signature_wrong";
  if (statement.ledger !== wanted.ledger) return "ledger_differs";
  if (statement.epoch !== wanted.epoch) return "epoch_differs";
  if (statement.effect !== wanted.effectId) return "effect_differs";
  if (statement.digest !== wanted.digest) return "binding_differs";
  if (Object.entries(wanted.cost).some(([unit, cost]) => cost > (statement.maximumCost[unit] ?? 0n)))
    return "cost_above";
  return statement.expiresAtMs <= wanted.nowMs ? "approval_expired" : null;
}

export interface CountedApprovals {
  /** Ids of the approvals that count, one for each approver. */
  readonly counted: readonly string[];
  /** When the first of them expires; `Infinity` where none counts. */
  readonly expiresAtMs: number;
  readonly not: Readonly<Record<string, NotCounted>>;
}

/** The approvals that count, one for each approver (the latest to expire), and why the others do not. */
export function countApprovals(approvals: readonly ApprovalFacts[], wanted: Approvable): CountedApprovals {
  const counted = new Map<string, { readonly approvalId: string; readonly expiresAtMs: number }>();
  const not: Record<string, NotCounted> = {};
  for (const approval of approvals) {
    const why = whyNotCounted(approval, wanted);
    const expiresAtMs = readStatement(approval.statement)?.expiresAtMs ?? 0;
    if (why) not[approval.approvalId] = why;
    else if ((counted.get(approval.approver)?.expiresAtMs ?? -1) < expiresAtMs)
      counted.set(approval.approver, { approvalId: approval.approvalId, expiresAtMs });
  }
  const standing = [...counted.values()];
  return {
    counted: standing.map(({ approvalId }) => approvalId),
    expiresAtMs: Math.min(Number.POSITIVE_INFINITY, ...standing.map(({ expiresAtMs }) => expiresAtMs)),
    not,
  };
}
