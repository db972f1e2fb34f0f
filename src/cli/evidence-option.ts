/**
 * Evidence from the command line: JSON as it is, or a file. A file of JSON that is small enough is kept whole, any other one
 * by its name, size and SHA-256: the document stays where it is, and whoever doubts compares it.
 */
import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { basename } from "node:path";
import { LedgerError } from "../core/error.ts";
import { cleanText } from "../core/text.ts";
import { checkJsonText, decodeUtf8, readInputText } from "./input-text.ts";

/** For --help of every command that takes one. */
export const EVIDENCE_HELP =
  "what was seen: JSON, - for JSON on stdin, or a file (a .json file is kept whole, another by its digest)";

/** As the ledger bounds a piece of evidence (migrations/0019_resolution.sql). */
const KEPT_BYTES_MAX = 65_536;

/** A file as evidence names it. */
export interface EvidenceFile {
  readonly file: string;
  /** In hex. */
  readonly sha256: string;
  readonly bytes: number;
}

/** The evidence as JSON text, unchanged where it was JSON: the ledger refuses what it cannot keep faithfully. */
export async function readEvidence(given: string): Promise<string> {
  if (given === "-" || /^\s*[{["]/.test(given)) return readInputText(given);
  const { head, ...file } = await digestFile(given);
  if (!given.toLowerCase().endsWith(".json") || file.bytes > KEPT_BYTES_MAX) return JSON.stringify(file);
  return checkJsonText(decodeUtf8(head, given), "the evidence");
}

/** A file's name, size and digest, read once and never held whole. @throws LedgerError `input_unreadable` */
export async function digestFile(path: string): Promise<EvidenceFile & { readonly head: Buffer }> {
  const hash = createHash("sha256");
  const head: Buffer[] = [];
  let bytes = 0;
  try {
    const handle = await open(path);
    for await (const chunk of handle.createReadStream() as AsyncIterable<Buffer>) {
      if (bytes <= KEPT_BYTES_MAX) head.push(chunk);
      hash.update(chunk);
      bytes += chunk.length;
    }
  } catch (cause) {
    throw new LedgerError("input_unreadable", `${path} cannot be read: ${cleanText((cause as Error).message, 200)}`, {
      hint: "give the path of a file, or JSON: '{\"statement\": 17}'",
      cause,
    });
  }
  if (bytes === 0) throw new LedgerError("input_unreadable", `${path} is empty`, { hint: "it would show nothing" });
  return { file: basename(path), sha256: hash.digest("hex"), bytes, head: Buffer.concat(head) };
}
