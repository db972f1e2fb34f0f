/** Inline effects in the database. No decisions: what stands comes out, what was decided goes in. */
import type pg from "pg";
import type { Binding } from "../core/binding.ts";
import type { Running } from "../core/facts.ts";
import type { InlineFacts, InlineName, InlineRequest } from "../core/inline.ts";
import type { StoredEvidence } from "../core/outcome.ts";
import type { Outcome, State } from "../core/state.ts";
import { type AdmissionFate, type LockedAdmission, type LockedRow, lockedFromRow } from "./admission.ts";
import { evidenceToJson } from "./outcome.ts";

/** Whose effects a login's are, and where: server, database and timeline in one word. */
export interface InlineCaller {
  readonly actor: string;
  readonly place: string;
}

/** @throws 42501 where the login does not speak for the actor that is named */
export async function inlineCaller(pool: pg.Pool, actor: string | null): Promise<InlineCaller> {
  const { rows } = await pool.query<InlineCaller>("select actor, place from effects_ledger.inline_caller($1)", [actor]);
  return rows[0] as InlineCaller;
}

/** What an inline effect is asked for as. */
export interface InlineAsked extends InlineName {
  readonly task: string;
  readonly actor: string | null;
  readonly invocation: string | null;
}

interface StandingRow {
  effect_id: string;
  key: string;
  state: State;
  via: string | null;
  proof: string | null;
  still_running_ms: number | null;
  former: boolean;
}

function factsFromRow(row: StandingRow): InlineFacts {
  return {
    effectId: row.effect_id,
    key: row.key,
    state: row.state,
    via: row.via,
    proof: row.proof,
    stillRunningMs: row.still_running_ms,
    former: row.former,
  };
}

/** Where the effect of a run and name stands; null where there is none. */
export async function findInline(pool: pg.Pool, { run, name, actor }: InlineAsked): Promise<InlineFacts | null> {
  const { rows } = await pool.query<{ standing: StandingRow | null }>(
    "select effects_ledger.find_inline($1, $2, $3) as standing",
    [run, name, actor],
  );
  const standing = rows[0]?.standing;
  return standing ? factsFromRow(standing) : null;
}

/** Requests it; null where the run has an effect of this name by now. Only in the transaction that also admits it. */
export async function requestInline(client: pg.ClientBase, asked: InlineAsked): Promise<InlineRequest | null> {
  const { rows } = await client.query<{
    requested: {
      effect_id: string;
      key: string;
      ledger_id: string;
      actor: string;
      task_id: string;
      subject: string | null;
      expires_at_ms: number;
      policy: { policy_id: string; name: string; revision: number };
    } | null;
  }>({
    name: "request_inline",
    text: "select effects_ledger.request_inline($1, $2, $3, $4, $5) as requested",
    values: [asked.run, asked.name, asked.task, asked.actor, asked.invocation],
  });
  const row = rows[0]?.requested;
  if (!row) return null;
  return {
    effectId: row.effect_id,
    key: row.key,
    ledgerId: row.ledger_id,
    actor: row.actor,
    taskId: row.task_id,
    subject: row.subject,
    expiresAtMs: row.expires_at_ms,
    policy: { policyId: row.policy.policy_id, name: row.policy.name, revision: row.policy.revision },
  };
}

export interface InlineBinding {
  readonly effectId: string;
  readonly binding: Binding;
  readonly running: Running;
  readonly expiresAtMs: number;
}

/** Stores its binding, and locks what its admission is decided from. */
export async function bindAndLock(
  client: pg.ClientBase,
  worker: string,
  { effectId, binding, running, expiresAtMs }: InlineBinding,
  remembered: string | null,
): Promise<LockedAdmission> {
  const item = {
    effect_id: effectId,
    binding_version: binding.version,
    bytes: binding.bytes.toString("utf8"),
    digest: binding.digest.toString("hex"),
    salt: binding.salt.toString("hex"),
    payload: binding.payload.toString("utf8"),
    payload_digest: binding.payloadDigest.toString("hex"),
    implementation: running.implementation,
    release: running.release,
    expires_at_ms: expiresAtMs,
  };
  const { rows } = await client.query<{ facts: LockedRow }>({
    name: "bind_inline",
    text: "select effects_ledger.bind_inline($1::jsonb, $2, $3::uuid) as facts",
    values: [JSON.stringify(item), worker, remembered],
  });
  return lockedFromRow((rows[0] as { facts: LockedRow }).facts, new Map([[effectId, running]]));
}

export interface IntentItem {
  readonly effectId: string;
  readonly digest: string;
  readonly permitExpiresAtMs: number;
  readonly attempt: string;
  readonly tokenHash: string;
  readonly runTimeoutMs: number;
}

/** Writes its permit and intent. */
export function admitInline(client: pg.ClientBase, worker: string, item: IntentItem): Promise<unknown> {
  const json = {
    effect_id: item.effectId,
    digest: item.digest,
    permit_expires_at_ms: item.permitExpiresAtMs,
    attempt: item.attempt,
    token_hash: item.tokenHash,
    dispatch_timeout_ms: item.runTimeoutMs,
  };
  return client.query({
    name: "admit_inline",
    text: "select effects_ledger.admit_inline($1::jsonb, $2)",
    values: [JSON.stringify(json), worker],
  });
}

/** What became of an intent whose COMMIT was not confirmed. */
export async function inlineFate(
  client: pg.ClientBase,
  transactionId: string,
  { effectId, tokenHash }: Pick<IntentItem, "effectId" | "tokenHash">,
): Promise<AdmissionFate> {
  const { rows } = await client.query<{
    fate: {
      identity: AdmissionFate["identity"];
      ledger_id: string | null;
      held: string[];
      transaction: AdmissionFate["transaction"];
    };
  }>("select effects_ledger.inline_fate($1, $2, $3) as fate", [transactionId, effectId, tokenHash]);
  const { identity, ledger_id: ledgerId, held, transaction } = (rows[0] as (typeof rows)[number]).fate;
  return { identity, ledgerId, held, units: {}, transaction };
}

/** What a run or a reconcile concludes. */
export interface InlineReport {
  readonly effectId: string;
  /** Of the run's token; null where a reconcile reports. */
  readonly tokenHash: string | null;
  readonly via: "run" | "reconcile";
  readonly outcome: Outcome;
  readonly evidence: StoredEvidence;
}

/** Records it, and says where the effect stands: what was recorded first. The same report again is a no-op. */
export async function recordInline(pool: pg.Pool, worker: string, report: InlineReport): Promise<InlineFacts> {
  const item = {
    effect_id: report.effectId,
    token_hash: report.tokenHash,
    via: report.via,
    outcome: report.outcome,
    evidence: evidenceToJson(report.evidence),
  };
  const { rows } = await pool.query<{ standing: StandingRow }>(
    "select effects_ledger.record_inline($1::jsonb, $2) as standing",
    [JSON.stringify(item), worker],
  );
  return factsFromRow((rows[0] as { standing: StandingRow }).standing);
}

/** Appends that a run ended without a proof: its process has reported. */
export async function noteInline(
  pool: pg.Pool,
  worker: string,
  note: { readonly effectId: string; readonly tokenHash: string; readonly reason: string },
): Promise<void> {
  const item = { effect_id: note.effectId, token_hash: note.tokenHash, detail: { reason: note.reason } };
  await pool.query("select effects_ledger.note_inline($1::jsonb, $2)", [JSON.stringify(item), worker]);
}

/** What to do about a denial. */
export async function denialHint(pool: pg.Pool, code: string): Promise<string> {
  const { rows } = await pool.query<{ hint: string | null }>("select effects_ledger.denial_hint($1) as hint", [code]);
  return rows[0]?.hint ?? "";
}

/**
 * Closes the ledger for all, where this login may: an admission that was confirmed is gone. False where only an operator
 * can.
 */
export async function closeForLoss(pool: pg.Pool, missing: string): Promise<boolean> {
  const { rows } = await pool.query<{ may: boolean }>(
    "select has_schema_privilege('effects_ledger', 'usage')" +
      " and has_function_privilege('effects_ledger.close_for_loss(uuid)', 'execute') as may",
  );
  if (!rows[0]?.may) return false;
  await pool.query("select effects_ledger.close_for_loss($1)", [missing]);
  return true;
}
