/** A piece of evidence on one line: who says what, and the beginning of the recipient's own words. `--json` has it whole. */
import type { AuditEvidence } from "../store/audit-schema.ts";
import { toJson } from "./output.ts";

const BODY_SHOWN_MAX = 160;

export function evidenceWords(evidence: AuditEvidence): string {
  return `${evidence.says} via ${evidence.source}: ${bodyWords(evidence)}`;
}

export function bodyWords({ body }: AuditEvidence): string {
  const text = toJson(body);
  return text.length > BODY_SHOWN_MAX ? `${text.slice(0, BODY_SHOWN_MAX)}…` : text;
}
