/**
 * An effect's input from the command line, a file or stdin. It is checked to be JSON and handed on as it is: parsing and
 * writing it again would lose a repeated key or a large number that the ledger refuses.
 */
import { open } from "node:fs/promises";
import type { Readable } from "node:stream";
import { LedgerError } from "../core/error.ts";
import { cleanText } from "../core/text.ts";

/** The ledger takes 65,536 bytes; white space may make a file larger than its value. Beyond this nothing is read. */
const READ_BYTES_MAX = 1_048_576;

/** Reads `JSON`, `@FILE` or `-`. @throws LedgerError `json_invalid`, `input_unreadable` */
export async function readInputText(given: string): Promise<string> {
  return checkJsonText(given === "-" || given.startsWith("@") ? await readSource(given) : given, "the input");
}

/** The text itself, where it is JSON. @throws LedgerError `json_invalid` */
export function checkJsonText(text: string, what: string): string {
  try {
    JSON.parse(text);
  } catch (error) {
    throw new LedgerError("json_invalid", `${what} is not JSON: ${cleanText((error as Error).message, 200)}`, {
      hint: "quote it for your shell: '{\"key\": 1}'; or give @FILE, or - for stdin",
    });
  }
  return text;
}

async function readSource(given: string): Promise<string> {
  const path = given.slice(1);
  try {
    if (given === "-") return await readAll(process.stdin, "stdin");
    const file = await open(path);
    return await readAll(file.createReadStream(), path);
  } catch (error) {
    if (error instanceof LedgerError) throw error;
    throw new LedgerError("input_unreadable", `${given} cannot be read: ${(error as Error).message}`, {
      hint: "give @ and the path of a file that can be read",
      cause: error,
    });
  }
}

async function readAll(stream: Readable, from: string): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > READ_BYTES_MAX) {
      throw new LedgerError("input_unreadable", `${from} has more than ${READ_BYTES_MAX} bytes`, {
        hint: "an input has at most 65536: keep large content elsewhere and give its reference",
      });
    }
    chunks.push(chunk);
  }
  return decodeUtf8(Buffer.concat(chunks), from);
}

/** The bytes as text. @throws LedgerError `input_unreadable` */
export function decodeUtf8(bytes: Uint8Array, from: string): string {
  try {
    // Not `toString`, which turns broken bytes into other characters without a word.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new LedgerError("input_unreadable", `${from} is not UTF-8`, { hint: "write it as UTF-8", cause });
  }
}
