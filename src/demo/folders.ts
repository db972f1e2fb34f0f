/** Removing the demo's folders: a process that was ended may still be closing its files in them. */
import { rm } from "node:fs/promises";

export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}
