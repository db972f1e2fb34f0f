/** Small questions to the file system whose "not there" is an answer and not a fault. Everything else still throws. */

import type { Stats } from "node:fs";
import { lstat, stat } from "node:fs/promises";

/** What the path leads to, or null when nothing is there. */
export function statIfThere(path: string): Promise<Stats | null> {
  return nullIf(["ENOENT", "ENOTDIR"], stat(path));
}

/** What the path is, links not followed, or null when nothing is there. */
export function lstatIfThere(path: string): Promise<Stats | null> {
  return nullIf(["ENOENT", "ENOTDIR"], lstat(path));
}

/** The promise's value, or null if it rejects with one of these system error codes. */
export async function nullIf<Value>(codes: readonly string[], promise: Promise<Value>): Promise<Value | null> {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof Error && "code" in error && codes.includes(String(error.code))) return null;
    throw error;
  }
}
