/** The rows that admission locks and writes. No decisions: facts come out, verdicts go in. */
import type pg from "pg";
import { amountsFromJson, amountsToJson } from "../core/amount.ts";
import type { ApprovalFacts } from "../core/approval.ts";
import { readBinding } from "../core/binding.ts";
import { type AdmissionFacts, type EffectFacts, laneKey, type Pause, type Running } from "../core/facts.ts";
import type { Charge } from "../core/room.ts";
import type { State } from "../core/state.ts";
import { type PolicyRow, policyFromRow } from "./policy.ts";

/** Facts of a batch, with what dispatch will need of each effect. */
export interface LockedAdmission {
  readonly facts: AdmissionFacts;
  /** The transaction's id, by which its fate can be asked. */
  readonly transactionId: string;
  readonly bodies: ReadonlyMap<string, StoredBody>;
}
/** The stored bytes, as hashed in the statement that returned them. */
export interface StoredBody {
  readonly bytes: string;
  readonly payload: string;
  readonly digest: string;
}

/** What effects_ledger.lock_admission returns. */
export interface LockedRow {
  now_ms: number;
  identity: AdmissionFacts["identity"];
  remembered: boolean;
  durability_gap: string | null;
  transaction_id: string;
  ledger: { ledger_id: string; recovery_epoch: string; violated: boolean };
  tasks: Record<string, { name: string; ended: boolean; revoked: boolean; deadline_ms: number | null }> | null;
  actors: Record<string, { revoked: boolean }> | null;
  policies: Record<string, PolicyRow> | null;
  approvals: Record<string, ApprovalRow[]> | null;
  against: Record<string, { effect_id: string; said: "accepted" | "contradicted" }> | null;
  busy_lanes: { operation: string; lane: string }[] | null;
  pauses: Pause[];
  budgets: {
    task_id: string;
    unit: string;
    limit: string;
    reserved: string;
    spent: string;
    overrun: string;
    suspended: boolean;
  }[];
  effects: {
    effect_id: string;
    state: State;
    revision: number | null;
    actor: string;
    requested_by: string;
    entitled: boolean;
    invocation_ended: boolean;
    lineage: string[];
    not_before_ms: number | null;
    follows: string | null;
    on_denial: "wait" | "decline";
    operation_withdrawn: boolean;
    operation: string;
    version: number;
    operation_protected: boolean;
    allowed_implementation: string | null;
    policy_id: string | null;
    cost: Record<string, string> | null;
    lane: string | null;
    implementation: string | null;
    release: string | null;
    prepared_at_ms: number | null;
    rebindings: number;
    expires_at_ms: number | null;
    digest: string | null;
    bytes: string | null;
    payload: string | null;
    bytes_match: boolean;
    payload_match: boolean;
  }[];
}

interface ApprovalRow {
  approval_id: string;
  approver: string;
  public_key: string;
  key_revoked: boolean;
  revoked: boolean;
  statement: string;
  signature: string;
}

/**
 * Locks what a batch is decided from. `running` is what this process would send each effect by; `remembered` the newest
 * admission that was confirmed to it, which has to be in place.
 */
export async function lockAdmission(
  client: pg.ClientBase,
  running: ReadonlyMap<string, Running>,
  remembered: string | null = null,
): Promise<LockedAdmission> {
  const { rows } = await client.query<{ facts: LockedRow }>({
    name: "lock_admission",
    text: "select effects_ledger.lock_admission($1::uuid[], $2::uuid) as facts",
    values: [[...running.keys()], remembered],
  });
  return lockedFromRow((rows[0] as { facts: LockedRow }).facts, running);
}

/** Reads what was locked; `running` as for `lockAdmission`. */
export function lockedFromRow(row: LockedRow, running: ReadonlyMap<string, Running>): LockedAdmission {
  return {
    transactionId: row.transaction_id,
    bodies: new Map(
      row.effects.map((effect) => [
        effect.effect_id,
        { bytes: effect.bytes ?? "", payload: effect.payload ?? "", digest: effect.digest ?? "" },
      ]),
    ),
    facts: {
      nowMs: row.now_ms,
      ledgerId: row.ledger.ledger_id,
      epoch: row.ledger.recovery_epoch,
      identity: row.identity,
      remembered: row.remembered,
      violated: row.ledger.violated,
      durabilityGap: row.durability_gap,
      tasks: new Map(
        Object.entries(row.tasks ?? {}).map(([id, task]) => [
          id,
          { name: task.name, ended: task.ended, revoked: task.revoked, deadlineMs: task.deadline_ms },
        ]),
      ),
      actors: new Map(Object.entries(row.actors ?? {})),
      policies: new Map(Object.entries(row.policies ?? {}).map(([id, policy]) => [id, policyFromRow(policy)])),
      approvals: new Map(
        Object.entries(row.approvals ?? {}).map(([id, approvals]) => [id, approvals.map(approvalFromRow)]),
      ),
      busyLanes: new Set((row.busy_lanes ?? []).map(({ operation, lane }) => laneKey(operation, lane))),
      pauses: row.pauses,
      budgets: row.budgets.map((budget) => ({
        taskId: budget.task_id,
        unit: budget.unit,
        limit: BigInt(budget.limit),
        reserved: BigInt(budget.reserved),
        spent: BigInt(budget.spent),
        overrun: BigInt(budget.overrun),
        suspended: budget.suspended,
      })),
      effects: row.effects.flatMap((effect) => {
        const runs = running.get(effect.effect_id);
        return runs ? [effectFromRow(effect, runs, row.against?.[effect.effect_id])] : [];
      }),
    },
  };
}

function effectFromRow(
  effect: LockedRow["effects"][number],
  running: Running,
  against: NonNullable<LockedRow["against"]>[string] | undefined,
): EffectFacts {
  // Read only where it hashes to its digest: bytes that do not are denied as such, whatever they say.
  const binding = effect.bytes_match && effect.bytes !== null ? readBinding(effect.bytes) : null;
  return {
    effectId: effect.effect_id,
    state: effect.state,
    lineage: effect.lineage,
    actor: effect.actor,
    requestedBy: effect.requested_by,
    entitled: effect.entitled,
    onDenial: effect.on_denial,
    notBeforeMs: effect.not_before_ms,
    expiresAtMs: effect.expires_at_ms ?? 0,
    preparedAtMs: effect.prepared_at_ms ?? 0,
    revision: effect.revision ?? 0,
    rebindings: effect.rebindings,
    digest: effect.digest ?? "",
    implementation: effect.implementation ?? "",
    release: effect.release ?? "",
    running,
    target: binding?.target ?? "",
    conditional: binding !== null && binding.precondition !== null,
    operation: {
      name: effect.operation,
      version: effect.version,
      withdrawn: effect.operation_withdrawn,
      protected: effect.operation_protected,
      allowedImplementation: effect.allowed_implementation,
    },
    policyId: effect.policy_id,
    cost: amountsFromJson(effect.cost),
    lane: effect.lane,
    follows: effect.follows,
    against: against ? { effectId: against.effect_id, said: against.said } : null,
    bytesMatch: effect.bytes_match,
    invocationEnded: effect.invocation_ended,
    payloadMatch: effect.payload_match,
  };
}

function approvalFromRow(row: ApprovalRow): ApprovalFacts {
  return {
    approvalId: row.approval_id,
    approver: row.approver,
    publicKey: Buffer.from(row.public_key, "hex"),
    keyRevoked: row.key_revoked,
    revoked: row.revoked,
    statement: Buffer.from(row.statement, "hex"),
    signature: Buffer.from(row.signature, "hex"),
  };
}

export interface AdmittedItem {
  readonly effectId: string;
  readonly digest: string;
  readonly issuedUnder: string;
  readonly permitExpiresAtMs: number;
  readonly attempt: string;
  readonly tokenHash: string;
  readonly cost: Readonly<Record<string, bigint>>;
  readonly charges: readonly Charge[];
  readonly policyId: string | null;
  readonly lane: string | null;
  readonly approvals: readonly string[];
  readonly dispatchTimeoutMs: number;
  readonly cleanup?: boolean;
}

/** Writes permits, reservations and intents: all of them, or the transaction fails. */
export function recordAdmitted(
  client: pg.ClientBase,
  worker: string,
  items: readonly AdmittedItem[],
): Promise<unknown> {
  const json = items.map((item) => ({
    effect_id: item.effectId,
    digest: item.digest,
    issued_under: item.issuedUnder,
    permit_expires_at_ms: item.permitExpiresAtMs,
    attempt: item.attempt,
    token_hash: item.tokenHash,
    cost: amountsToJson(item.cost),
    charges: item.charges.map(({ taskId, unit, amount }) => ({ task_id: taskId, unit, amount: amount.toString() })),
    policy_id: item.policyId,
    lane: item.lane,
    approvals: item.approvals,
    dispatch_timeout_ms: item.dispatchTimeoutMs,
    ...(item.cleanup === true && { cleanup: true }),
  }));
  return client.query({
    name: "record_admitted",
    text: "select effects_ledger.record_admitted($1::jsonb, $2)",
    values: [JSON.stringify(json), worker],
  });
}

/** What the record says about a transaction whose COMMIT was not confirmed. */
export interface AdmissionFate {
  readonly identity: AdmissionFacts["identity"];
  readonly ledgerId: string | null;
  /** The effects that carry the tokens asked about. */
  readonly held: readonly string[];
  /** The units that each of them reserved. */
  readonly units: Readonly<Record<string, readonly string[]>>;
  /** `pg_xact_status`: null where the server cannot tell any more. */
  readonly transaction: "committed" | "aborted" | "in progress" | null;
}

/** Asks what became of an admission, from a connection of its own. */
export async function admissionFate(
  client: pg.ClientBase,
  transactionId: string,
  tokenHashes: ReadonlyMap<string, string>,
): Promise<AdmissionFate> {
  const { rows } = await client.query<{
    fate: {
      identity: AdmissionFate["identity"];
      ledger_id: string | null;
      held: string[];
      units: Record<string, string[]>;
      transaction: AdmissionFate["transaction"];
    };
  }>("select effects_ledger.admission_fate($1, $2::uuid[], $3::text[]) as fate", [
    transactionId,
    [...tokenHashes.keys()],
    [...tokenHashes.values()],
  ]);
  const { fate } = rows[0] as (typeof rows)[number];
  return {
    identity: fate.identity,
    ledgerId: fate.ledger_id,
    held: fate.held,
    units: fate.units,
    transaction: fate.transaction,
  };
}

/** Why an admitted effect should go no further, or null. */
export async function authorityGap(pool: pg.Pool, effectId: string): Promise<string | null> {
  const { rows } = await pool.query<{ gap: string | null }>("select effects_ledger.authority_gap($1) as gap", [
    effectId,
  ]);
  return rows[0]?.gap ?? null;
}
