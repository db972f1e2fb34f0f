/** What is left of a demo that has ended: looked at, not assumed. */
import { access } from "node:fs/promises";

/** How many of these processes run and how many of these folders are there. */
export async function left(
  processes: readonly number[],
  folders: readonly string[],
): Promise<{ readonly processes: number; readonly folders: number }> {
  const there = await Promise.all(
    folders.map((folder) =>
      access(folder).then(
        () => true,
        () => false,
      ),
    ),
  );
  return { processes: processes.filter(isRunning).length, folders: there.filter(Boolean).length };
}

function isRunning(processId: number): boolean {
  try {
    process.kill(processId, 0);
    return true;
  } catch {
    return false;
  }
}
