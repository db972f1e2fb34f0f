/** A piece of evidence on one line: who says what, and the beginning of the recipient's own words. `--json` has it whole. */
import type { AuditEvidence } from "../store/audit-schema.ts";
import { toJson } from "./output.ts";

const BODY_SHOWN_MAX = 160;

export function evidenceWords({ says, source, body }: AuditEvidence): string {
  const text = toJson(body) ?? "null";
  return `${says} via ${source}: ${text.length > BODY_SHOWN_MAX ? `${text.slice(0, BODY_SHOWN_MAX)}…` : text}`;
}
