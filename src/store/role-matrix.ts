/**
 * Who may do what, as data (protocol, section 11): one line for each function and view that a role gets. What has no line
 * belongs to `schema` alone. roles.ts turns it into grants; test/roles compares it with the catalogue, so that nothing new
 * is left out, and nothing here decides anything.
 */
import { GATES } from "./transaction.ts";

/** The roles of a ledger, by the end of their names: `effects_service` is the service under the default prefix. */
export const ROLES = ["schema", "owner", "service", "worker", "operator", "approver", "auditor"] as const;
export type Role = (typeof ROLES)[number];
/** `schema` owns everything and is granted nothing. */
export type Grantee = Exclude<Role, "schema">;

/** What the names begin with, unless `migrate --role-prefix` says otherwise: roles belong to the whole cluster. */
export const DEFAULT_PREFIX = "effects_";

/** Every schema of ours, with the roles that may look names up in it. */
export const SCHEMAS = {
  effects: ["owner", "service", "worker", "operator", "approver"],
  effects_ledger: ["service", "worker", "operator"],
  effects_payload: [],
  effects_queue: ["worker"],
  effects_migrations: [],
  audit: ["owner", "operator", "auditor"],
} as const satisfies Readonly<Record<string, readonly Grantee[]>>;

/** Every view and function of the schema audit, and what its views compute with. */
export const AUDIT_READERS = ["owner", "operator", "auditor"] as const satisfies readonly Grantee[];

const EVERYBODY: readonly Grantee[] = ["owner", "service", "worker", "operator", "approver", "auditor"];

/** SELECT, outside the schema audit. */
export const VIEWS: Readonly<Record<string, readonly Grantee[]>> = {
  "effects.ledger": ["owner", "service", "worker", "operator", "approver"],
  "effects.operations": ["owner", "service", "worker", "operator", "approver"],
  "effects.effects": ["service"],
  "effects.awaiting_approval": ["operator", "approver"],
};

/** EXECUTE. */
export const FUNCTIONS: Readonly<Record<string, readonly Grantee[]>> = {
  // Request and look.
  "effects.enqueue": ["service"],
  "effects.enqueue_many": ["service"],
  "effects.follow": ["service", "operator"],
  "effects.open_task": ["service"],
  "effects.end_task": ["service"],
  "effects.observe": ["service", "operator"],
  "effects.find": ["service", "operator"],
  "effects.cancel": ["service", "operator"],
  "effects.take_notices": ["service"],
  "effects.start_invocation": ["service"],
  "effects.end_invocation": ["service", "operator"], // of a host that is gone
  "effects_ledger.own_effects": ["service"],

  // Inline effects: what a service runs itself, and reports about its own only.
  "effects_ledger.inline_caller": ["service"],
  "effects_ledger.find_inline": ["service"],
  "effects_ledger.request_inline": ["service"],
  "effects_ledger.bind_inline": ["service"],
  "effects_ledger.admit_inline": ["service"],
  "effects_ledger.inline_fate": ["service"],
  "effects_ledger.record_inline": ["service"],
  "effects_ledger.note_inline": ["service"],
  "effects_ledger.denial_hint": ["service"],

  // Give authority.
  "effects.open_root_task": ["owner"],
  "effects.set_budget": ["owner"],
  "effects.add_actor": ["owner"],
  "effects.let_observe": ["owner"],
  "effects.add_policy": ["owner"],
  "effects.add_approver": ["owner"],
  "effects.add_source": ["owner"],
  "effects.allow_operation": ["owner"],
  "effects.protect_operation": ["owner"],
  "effects.withdraw_operation": ["owner"],
  "effects.set_ledger": ["owner"],
  "effects.acknowledge_recovery": ["owner"],
  "effects.acknowledge_violation": ["owner"],
  "effects.confirm_policy": ["owner"],
  "effects.attest_durability": ["owner"],
  "effects.demand_synchronous_standby": ["owner"],

  // Take it away, or hold it back.
  "effects.revoke_task": ["owner", "operator"],
  "effects.revoke_actor": ["owner", "operator"],
  "effects.revoke_speaker": ["owner", "operator"],
  "effects.revoke_observer": ["owner", "operator"],
  "effects.revoke_policy": ["owner", "operator"],
  "effects.revoke_approver": ["owner", "operator"],
  "effects.revoke_source": ["owner", "operator"],
  "effects.revoke_approval": ["operator"],
  "effects.close_ledger": ["owner", "operator"],
  "effects.pause": ["operator"],
  "effects.resume": ["operator"],

  // Approve.
  "effects.approval_statement": ["approver"],
  "effects.submit_approval": ["approver"],
  "effects.refuse": ["approver"],

  // Keep the record honest.
  "effects.report_violation": ["owner", "operator"],
  "effects.make_checkpoint": ["owner", "operator"],
  "effects.sign_checkpoint": ["owner", "operator"],

  // Ask the recipients, and say what became of it.
  "effects.request_reconciliation": ["operator"],
  "effects.resolve": ["operator"],
  "effects.accept_risk": ["operator"],
  "effects.retry_cleanup": ["operator"],
  "effects.submit_evidence": ["service", "operator"], // of a source that the owner registered, and by whom it says

  // An effect's way through a worker.
  "effects_ledger.register_operations": ["worker"],
  "effects_ledger.load_effects": ["worker"],
  "effects_ledger.record_prepared": ["worker"],
  "effects_ledger.record_declined": ["worker"],
  "effects_ledger.record_waiting": ["worker"],
  "effects_ledger.lock_admission": ["worker", "operator"], // explain runs the decision, and rolls back
  "effects_ledger.registered_running": ["operator"], // the same
  "effects_ledger.record_admitted": ["worker"],
  "effects_ledger.admission_fate": ["worker"],
  "effects_ledger.authority_gap": ["worker"],
  "effects_ledger.cancel_requested": ["worker"],
  "effects_ledger.record_outcomes": ["worker"],
  "effects_ledger.record_unresolved": ["worker"],
  "effects_ledger.begin_reconciliation": ["worker"],
  "effects_ledger.end_reconciliation": ["worker"],
  "effects_ledger.begin_inspections": ["worker"],
  "effects_ledger.finish_inspections": ["worker"],
  "effects_ledger.first_dispatch": ["worker"],

  // What it owes afterwards.
  "effects_ledger.begin_cleanup": ["worker"],
  "effects_ledger.finish_cleanup": ["worker"],
  "effects_ledger.queue_cleanup": ["worker"],
  "effects_ledger.queue_cleanups": ["worker"],

  // What a worker keeps going.
  "effects_ledger.add_probe_job": ["worker"],
  "effects_ledger.close_for_loss": ["worker"],
  "effects_ledger.heartbeat": ["worker"],
  "effects_ledger.stop_worker": ["worker"],
  "effects_ledger.free_silent": ["worker"],
  "effects_ledger.free_unnamed": ["worker"],
  "effects_ledger.queue_waiting": ["worker"],
  "effects_ledger.mark_overdue": ["worker"],
  "effects_ledger.requeue": ["worker"],

  // What the audit views compute with: a view's functions run with its reader's rights. Anybody may recompute a chain.
  "effects_ledger.event_hash": AUDIT_READERS,
  "effects_ledger.chain_start": AUDIT_READERS,
  "effects_ledger.authority_hash": AUDIT_READERS,
  "effects_ledger.identity_gap": AUDIT_READERS,
  "effects_ledger.recovery_facts": AUDIT_READERS,
  "effects_ledger.checkpoint_root": AUDIT_READERS,
  "effects_ledger.checkpoint_statement": AUDIT_READERS,
  // The same for effects.ledger, which everybody else reads.
  "effects_ledger.identity_standing": EVERYBODY,
  "effects_ledger.durability_gap": EVERYBODY,
};

/** Tables that a role reaches without a function. LOCK TABLE wants UPDATE on the gates, which are empty and stay so. */
export const TABLES: Readonly<Record<string, { readonly to: Grantee; readonly privileges: readonly string[] }>> = {
  ...Object.fromEntries(
    Array.from({ length: GATES }, (_, gate) => [
      `effects_ledger.gate_${gate}`,
      { to: "worker" as const, privileges: ["update"] },
    ]),
  ),
  // graphile-worker's own, which it reads and writes as whoever runs it. What a job says is a hint: the ledger decides.
  "effects_queue._private_jobs": { to: "worker", privileges: ["select", "insert", "update", "delete"] },
  "effects_queue._private_job_queues": { to: "worker", privileges: ["select", "insert", "update"] },
  "effects_queue._private_tasks": { to: "worker", privileges: ["select", "insert"] },
  "effects_queue._private_known_crontabs": { to: "worker", privileges: ["select", "insert", "update"] },
  "effects_queue.migrations": { to: "worker", privileges: ["select"] },
};
