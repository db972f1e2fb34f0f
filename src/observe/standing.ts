/** Where an effect stands, as its requester sees it: one closed union, the same words as in SQL. */
import { type Amounts, amountsFromJson, amountsToJson } from "../core/amount.ts";
import type { DeclinedReason } from "../core/state.ts";

export interface Resolution {
  readonly kind: "evidence" | "reached" | "risk_accepted";
  /** What the evidence says happened; null where the wanted state is there by an unknown hand, or the risk was accepted. */
  readonly says: "accepted" | "failed" | "no_effect" | null;
  readonly by: string;
  readonly at: Date;
}

type StandingOf<Proof> =
  | { readonly state: "requested" | "prepared"; readonly waitingFor: string | null }
  | { readonly state: "declined"; readonly reason: DeclinedReason; readonly code: string; readonly hint: string }
  | { readonly state: "admitted"; readonly unresolved: false }
  | { readonly state: "admitted"; readonly unresolved: true; readonly unresolvedSince: Date }
  | {
      readonly state: "accepted";
      readonly proof: Proof;
      /** `run`: of an inline effect, by its host. */
      readonly via: "dispatch" | "run" | "reconcile";
      readonly cost: Amounts;
    }
  | { readonly state: "failed"; readonly evidence: unknown; readonly cost: Amounts }
  | { readonly state: "no_effect"; readonly evidence: unknown }
  | { readonly state: "uncertain"; readonly unresolved: boolean; readonly resolution: Resolution | null };

/**
 * A standing; `JSON.stringify` works on it, amounts as decimal strings. `followedBy`: the effect that tries it again, by its
 * adapter's wish or somebody's; what becomes of the matter, that one says.
 */
export type Standing<Proof = unknown> = StandingOf<Proof> & { readonly followedBy?: string; toJSON(): object };

/** An effect that was looked for by its name. */
export interface Found<Proof = unknown> {
  readonly effectId: string;
  readonly standing: Standing<Proof>;
}

/** A row of effects.observe. */
export interface ObservedRow {
  readonly effect_id: string;
  readonly name: string | null;
  readonly operation: string;
  readonly version: number;
  readonly task: string;
  readonly state: Standing["state"];
  readonly unresolved: boolean;
  readonly unresolved_since: Date | null;
  readonly waiting_for: string | null;
  readonly reason: DeclinedReason | null;
  readonly code: string | null;
  readonly hint: string | null;
  readonly proof: unknown;
  readonly evidence: unknown;
  readonly via: "dispatch" | "run" | "reconcile" | null;
  readonly cost: Readonly<Record<string, string>>;
  readonly resolution: { kind: Resolution["kind"]; says: Resolution["says"]; by: string; at: string } | null;
  readonly reference: string | null;
  readonly seq: number;
  readonly followed_by: string | null;
}

/** Reads a row of effects.observe. */
export function standingOf<Proof>(row: ObservedRow): Standing<Proof> {
  const standing = { ...unionOf<Proof>(row), ...(row.followed_by && { followedBy: row.followed_by }) };
  const toJSON = () => ("cost" in standing ? { ...standing, cost: amountsToJson(standing.cost) } : { ...standing });
  // Not enumerable: a standing compares and spreads as its own fields.
  return Object.defineProperty(standing, "toJSON", { value: toJSON }) as Standing<Proof>;
}

function unionOf<Proof>(row: ObservedRow): StandingOf<Proof> {
  const cost = amountsFromJson(row.cost);
  switch (row.state) {
    case "requested":
    case "prepared":
      return { state: row.state, waitingFor: row.waiting_for };
    case "declined":
      return { state: "declined", reason: row.reason ?? "denied", code: row.code ?? "", hint: row.hint ?? "" };
    case "admitted":
      return row.unresolved && row.unresolved_since
        ? { state: "admitted", unresolved: true, unresolvedSince: row.unresolved_since }
        : { state: "admitted", unresolved: false };
    case "accepted":
      return { state: "accepted", proof: row.proof as Proof, via: row.via ?? "dispatch", cost };
    case "failed":
      return { state: "failed", evidence: row.evidence, cost };
    case "no_effect":
      return { state: "no_effect", evidence: row.evidence };
    case "uncertain":
      return {
        state: "uncertain",
        unresolved: row.unresolved,
        resolution: row.resolution && { ...row.resolution, at: new Date(row.resolution.at) },
      };
  }
}

/** True where an observer has nothing more to wait for without somebody's act. */
export function isEnding(standing: Standing): boolean {
  switch (standing.state) {
    case "requested":
    case "prepared":
      return false;
    case "admitted":
      return standing.unresolved;
    default:
      return true;
  }
}
