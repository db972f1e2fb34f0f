/**
 * Everything that the demo claims, as one closed list: what it says, and what must be observed for it to be true. Scenes
 * bring observations only; whether they fit is decided here and in `story.ts`, never by a scene.
 */

/** `requests` is always what the recipient counted; the rest are the ledger's words or the recipient's. */
export type Observed = Readonly<Record<string, string | number | boolean | null>>;

export interface Claim {
  readonly says: string;
  readonly expects: Observed;
}

const UNRESOLVED = { state: "admitted", unresolved: true } as const;

export const CLAIMS = {
  charge_sent: {
    says: "the card API booked the charge and is answering",
    expects: { booked: 1, requests: 1 },
  },
  charge_killed: {
    says: "its worker process ended by SIGKILL; nobody got the answer",
    expects: { signal: "SIGKILL", requests: 1 },
  },
  charge_unresolved: {
    says: "the ledger: admitted, unresolved, 4200 usd_cents held",
    expects: { ...UNRESOLVED, held: "4200", requests: 1 },
  },
  push_unresolved: {
    says: "the push arrived, its answer was cut; the ledger: admitted, unresolved",
    expects: { ...UNRESOLVED, requests: 1 },
  },
  push_accepted: {
    says: "reconcile: ls-remote shows branch and mark at our commit; the ledger: accepted",
    expects: { state: "accepted", via: "reconcile", branch_moved: true, mark_stands: true, requests: 1 },
  },
  insert_unresolved: {
    says: "the insert was cut before it arrived; the ledger: admitted, unresolved",
    expects: { ...UNRESOLVED, rows: 0, requests: 0 },
  },
  insert_no_effect: {
    says: "reconcile: no row, and a void mark against late ones; the ledger: no_effect",
    expects: { state: "no_effect", via: "reconcile", rows: 0, requests: 0 },
  },
  insert_late_refused: {
    says: "a late insert under the same key was tried and met the void mark: refused",
    expects: { report: "failed", code: "fenced", state: "no_effect", via: "reconcile", rows: 0, requests: 1 },
  },
  mail_unresolved: {
    says: "the mail server took the mail, its 250 was lost; the ledger: admitted, unresolved",
    expects: { ...UNRESOLVED, requests: 1 },
  },
  mail_uncertain: {
    says: "reconcile: there is no mailbox to ask; the ledger: uncertain, and left so",
    expects: { state: "uncertain", unresolved: true, resolution: null, requests: 1 },
  },
  budget_declined: {
    says: "9900 usd_cents asked of a budget of 5000; the ledger: declined, budget_exceeded",
    expects: { state: "declined", reason: "denied", code: "budget_exceeded", requests: 0 },
  },
  charge_redelivered: {
    says: "silent for 15 s: the killed worker's job went to the new worker, which sent nothing",
    expects: { ...UNRESOLVED, silent_15_s: true, jobs_left: 0, requests: 1 },
  },
  charge_accepted: {
    says: "reconcile: the API has the charge under our key; the ledger: accepted",
    expects: { state: "accepted", via: "reconcile", same_charge: true, booked: 1, requests: 1 },
  },
  plain_charge_locked: {
    says: "charge: worker killed alike; its job stays locked (by default 4 hours)",
    expects: { signal: "SIGKILL", locked: true, attempts: 1, requests: 1 },
  },
  plain_charge_again: {
    says: "charge: freed by force_unlock_workers, as an operator or the 4 hours would: again",
    expects: { attempts: 2, booked: 2, requests: 2 },
  },
  plain_push_moved: {
    says: "push: done, the branch moved: to push a commit a second time does no harm",
    expects: { done: true, branch_moved: true },
  },
  plain_insert_second: {
    says: "insert: the second try inserted the row: here that is the right thing",
    expects: { attempts: 2, rows: 1, requests: 1 },
  },
  plain_mail_twice: {
    says: "mail: the second try sent it a second time",
    expects: { attempts: 2, requests: 2 },
  },
  plain_budget_charged: {
    says: "over budget: charged, since a queue has no budgets",
    expects: { attempts: 1, booked: 1, requests: 1 },
  },
  audit_effects: {
    says: "the audit's endings are the ones told above",
    expects: {
      "order/1001/charge": "accepted reconcile",
      "release/7/push": "accepted reconcile",
      "order/1001/shipment": "no_effect reconcile",
      "order/1001/receipt": "uncertain reconcile unresolved",
      "order/1002/charge": "declined",
    },
  },
  audit_one_dispatch: {
    says: "the charge was admitted, and so dispatched, by one worker once",
    expects: { admitted: 1, accepted: 1 },
  },
  audit_violations: {
    says: "the books are whole: no violation",
    expects: { violations: 0 },
  },
  nothing_twice: {
    says: "no recipient was asked twice for an effect of pg-effects",
    expects: { asked_twice: 0 },
  },
  nothing_left: {
    says: "every process has ended and every folder is gone",
    expects: { processes: 0, folders: 0 },
  },
  kept: {
    says: "the server and the ledger go on without the demo; nothing else is left",
    expects: { ledger: "demo", effects: 5, processes: 0, folders: 0 },
  },
} as const satisfies Readonly<Record<string, Claim>>;

export type ClaimName = keyof typeof CLAIMS;

/** Those that a run must have observed: how it ends depends on `--keep`. */
export function wantedClaims(keep: boolean): readonly ClaimName[] {
  const names = Object.keys(CLAIMS) as ClaimName[];
  return names.filter((name) => name !== (keep ? "nothing_left" : "kept"));
}
