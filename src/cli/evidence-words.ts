/** A piece of evidence on one line: who says what, and the beginning of the recipient's own words. `--json` has it whole. */
import type { AuditEvidence, AuditTimeline } from "../store/audit-schema.ts";
import { toJson } from "./output.ts";

const BODY_SHOWN_MAX = 160;

export function evidenceWords(evidence: AuditEvidence): string {
  return `${evidence.says} via ${evidence.source}: ${bodyWords(evidence)}`;
}

export function bodyWords({ body }: { readonly body: unknown }): string {
  const text = toJson(body);
  return text.length > BODY_SHOWN_MAX ? `${text.slice(0, BODY_SHOWN_MAX)}…` : text;
}

/** What was said, for each entry of a timeline that has its digest; each piece once, where it first came up. */
export function saidWords(evidence: readonly AuditEvidence[]): (entry: AuditTimeline) => string {
  const bodies = new Map(evidence.map((each) => [each.digest, each]));
  return ({ detail }) => {
    const digest = String(detail.evidence_digest);
    const found = bodies.get(digest);
    bodies.delete(digest);
    return found ? bodyWords(found) : "";
  };
}
