/** Effects before their admission: what their jobs read, and what preparation writes. One table family, no decisions. */
import type pg from "pg";
import { type Amounts, amountsToJson } from "../core/amount.ts";
import type { Binding } from "../core/binding.ts";
import type { PolicyFacts, Running } from "../core/facts.ts";
import type { DeclinedReason, State } from "../core/state.ts";
import { type PolicyRow, policyFromRow } from "./policy.ts";

/** An effect as its job finds it. */
export interface LoadedEffect {
  readonly effectId: string;
  readonly state: State;
  readonly revision: number | null;
  readonly key: string;
  readonly operation: string;
  readonly version: number;
  readonly actor: string;
  readonly input: unknown;
  readonly expiresAtMs: number;
  readonly nowMs: number;
  readonly taskId: string;
  readonly lineage: readonly string[];
  readonly subject: string | null;
  readonly ledgerId: string;
  /** By its owner, or because the ledger is strict. */
  readonly protected: boolean;
  readonly allowedImplementation: string | null;
  /** The live policies that could cover it. */
  readonly policies: readonly PolicyFacts[];
  /** What is bound, where anything is. */
  readonly bound: LoadedBinding | null;
}

export interface LoadedBinding {
  readonly implementation: string;
  readonly release: string;
  readonly preparedAtMs: number;
  readonly policyKind: "ordinary" | "owner" | null;
  readonly policyPreparedWithinMs: number | null;
  readonly rebindings: number;
}

interface LoadedRow {
  effect_id: string;
  state: State;
  revision: number | null;
  key: string;
  operation: string;
  version: number;
  actor: string;
  input: unknown;
  expires_at_ms: number;
  now_ms: number;
  task_id: string;
  lineage: string[];
  subject: string | null;
  ledger_id: string;
  protected: boolean;
  allowed_implementation: string | null;
  policies: PolicyRow[];
  bound: {
    implementation: string;
    release: string;
    prepared_at_ms: number;
    policy_kind: "ordinary" | "owner" | null;
    prepared_within_ms: number | null;
    rebindings: number;
  } | null;
}

/** Loads effects by id, in the order asked; undefined for one that does not exist. */
export async function loadEffects(
  pool: pg.Pool,
  ids: readonly string[],
): Promise<readonly (LoadedEffect | undefined)[]> {
  const { rows } = await pool.query<{ effect: LoadedRow }>({
    name: "load_effects",
    text: "select effect from effects_ledger.load_effects($1::uuid[]) as effect",
    values: [ids],
  });
  const found = new Map(rows.map(({ effect }) => [effect.effect_id, effect]));
  return ids.map((id) => {
    const row = found.get(id);
    return row && fromRow(row);
  });
}

function fromRow(row: LoadedRow): LoadedEffect {
  return {
    effectId: row.effect_id,
    state: row.state,
    revision: row.revision,
    key: row.key,
    operation: row.operation,
    version: row.version,
    actor: row.actor,
    input: row.input,
    expiresAtMs: row.expires_at_ms,
    nowMs: row.now_ms,
    taskId: row.task_id,
    lineage: row.lineage,
    subject: row.subject,
    ledgerId: row.ledger_id,
    protected: row.protected,
    allowedImplementation: row.allowed_implementation,
    policies: row.policies.map(policyFromRow),
    bound: row.bound && {
      implementation: row.bound.implementation,
      release: row.bound.release,
      preparedAtMs: row.bound.prepared_at_ms,
      policyKind: row.bound.policy_kind,
      policyPreparedWithinMs: row.bound.prepared_within_ms,
      rebindings: row.bound.rebindings,
    },
  };
}

/** A binding to be stored as one effect's next revision. */
export interface PreparedItem {
  readonly effectId: string;
  readonly revision: number;
  readonly binding: Binding;
  readonly implementation: string;
  readonly release: string;
  /** The policy chosen; `null` where none covers it. */
  readonly policyId: string | null;
  readonly lane: string | null;
  /** Bound again because what had been bound no longer held. */
  readonly rebound: boolean;
  readonly cost: Amounts;
  readonly expiresAtMs: number;
}

/** Stores bindings. Returns the effects that took theirs; one that has moved on meanwhile is not among them. */
export async function recordPrepared(
  client: pg.ClientBase | pg.Pool,
  worker: string,
  items: readonly PreparedItem[],
): Promise<ReadonlySet<string>> {
  const { rows } = await client.query<{ effect_id: string }>({
    name: "record_prepared",
    text: "select effect_id from effects_ledger.record_prepared($1::jsonb, $2) as effect_id",
    values: [JSON.stringify(items.map(preparedToJson)), worker],
  });
  return new Set(rows.map(({ effect_id }) => effect_id));
}

function preparedToJson(item: PreparedItem): object {
  return {
    effect_id: item.effectId,
    revision: item.revision,
    binding_version: item.binding.version,
    bytes: item.binding.bytes.toString("utf8"),
    digest: item.binding.digest.toString("hex"),
    salt: item.binding.salt.toString("hex"),
    payload: item.binding.payload.toString("utf8"),
    payload_digest: item.binding.payloadDigest.toString("hex"),
    implementation: item.implementation,
    release: item.release,
    policy_id: item.policyId,
    lane: item.lane,
    rebound: item.rebound,
    cost: amountsToJson(item.cost),
    expires_at_ms: item.expiresAtMs,
  };
}

export interface DeclinedItem {
  readonly effectId: string;
  readonly reason: DeclinedReason;
  readonly code: string;
  readonly detail: Readonly<Record<string, string>>;
}

/** Declines effects that are not admitted. */
export function recordDeclined(
  client: pg.ClientBase | pg.Pool,
  worker: string,
  items: readonly DeclinedItem[],
): Promise<unknown> {
  return client.query({
    name: "record_declined",
    text: "select effects_ledger.record_declined($1::jsonb, $2)",
    values: [JSON.stringify(items.map(({ effectId, ...rest }) => ({ effect_id: effectId, ...rest }))), worker],
  });
}

export interface WaitingItem {
  readonly effectId: string;
  readonly code: string;
  readonly waitingFor: string;
  readonly retryAfterMs: number;
  readonly detail: Readonly<Record<string, string>>;
}

/** Leaves effects waiting and queues their jobs again for later, in the same transaction. */
export function recordWaiting(
  client: pg.ClientBase | pg.Pool,
  worker: string,
  items: readonly WaitingItem[],
): Promise<unknown> {
  const json = items.map((item) => ({
    effect_id: item.effectId,
    code: item.code,
    waiting_for: item.waitingFor,
    retry_after_ms: Math.ceil(item.retryAfterMs),
    detail: item.detail,
  }));
  return client.query({
    name: "record_waiting",
    text: "select effects_ledger.record_waiting($1::jsonb, $2)",
    values: [JSON.stringify(json), worker],
  });
}

/** Queues effects again at once, for whichever worker takes them. */
export async function requeue(pool: pg.Pool, ids: readonly string[]): Promise<void> {
  await pool.query("select effects_ledger.requeue($1::uuid[])", [ids]);
}

/**
 * What a worker would run for an effect: the implementation that its owner allowed, else the one registered last. Null
 * where there is no such effect.
 */
export async function registeredRunning(client: pg.ClientBase | pg.Pool, effectId: string): Promise<Running | null> {
  const { rows } = await client.query<{
    running: {
      implementation: string;
      release: string;
      precondition: Running["precondition"];
      prepared_within_ms: number | null;
    } | null;
  }>("select effects_ledger.registered_running($1) as running", [effectId]);
  const running = rows[0]?.running;
  if (!running) return null;
  const { implementation, release, precondition, prepared_within_ms } = running;
  return { implementation, release, precondition, preparedWithinMs: prepared_within_ms };
}
