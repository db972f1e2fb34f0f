/**
 * Which files of a folder of operations graphile-worker's loader passes over. It says nothing of them: a misnamed operation
 * would only be missing.
 */
import { readdir } from "node:fs/promises";
import { relative } from "node:path";

/** Code by its ending; declarations of types are none. */
export const TASK_SOURCE = /(?<!\.d)\.[cm]?[jt]sx?$/;

/** What the loader takes, the first of several files of one name first. */
const LOADED = [".js", ".cjs", ".mjs", ".ts", ".mts"];

/** A name that the loader looks at: it cuts it at its first dot. */
const LOOKED_AT = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

/** A file of the loader's, as its hook has it. */
export interface TaskFile {
  readonly fullPath: string;
  /** From the first dot on. */
  readonly extension: string;
}

/** The one of a task's files that is loaded, if any is. */
export function loadedFile<File extends TaskFile>(files: readonly File[]): File | undefined {
  return LOADED.map((extension) => files.find((file) => file.extension === extension)).find((file) => file);
}

/** Of one task's files, in words, those that are not loaded although they are code. */
export function passedOver(files: readonly TaskFile[], folder: string): readonly string[] {
  const loaded = loadedFile(files);
  return files
    .filter((file) => file !== loaded && TASK_SOURCE.test(file.fullPath))
    .map(({ fullPath, extension }) => {
      const file = relative(folder, fullPath);
      if (loaded && LOADED.includes(extension)) return `${file} is not loaded: ${relative(folder, loaded.fullPath)} is`;
      return `${file} is not loaded: an operation's file ends in one of ${LOADED.join(", ")}, with no dot before`;
    });
}

/** The files at the top of a folder, in words, whose names the loader does not even look at. */
export async function oddNames(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder);
  return entries
    .filter((entry) => TASK_SOURCE.test(entry) && !entry.startsWith(".") && !LOOKED_AT.test(entry))
    .map((entry) => `${entry} is not loaded: a file is named like its operation, in a-z, 0-9 and _`);
}
