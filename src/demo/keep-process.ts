/**
 * The keeper of a demo's server: starts it, and ends with it. Until it has heard `keep` it ends with the demo. At SIGTERM
 * it stops the server, whose temporary folder goes with it.
 */
import { describeThrown } from "../core/text.ts";
import { startEmbedded } from "../postgres/embedded.ts";
import type { KeeperMessage } from "./keep.ts";

const starting = startEmbedded();
let kept = false;
let ending = false;

async function end(): Promise<void> {
  if (ending) return;
  ending = true;
  try {
    await (await starting).stop();
  } finally {
    process.exit();
  }
}

function say(message: KeeperMessage): void {
  process.send?.(message);
}

process.on("SIGTERM", end);
process.on("SIGINT", end);
process.on("message", () => {
  kept = true;
  say("kept");
});
process.on("disconnect", () => {
  if (!kept) void end();
});
// Neither the server nor its watcher keeps a process alive, and the channel will be closed: this process lives for them.
setInterval(() => {}, 2_147_483_647);

try {
  const { stop: _stop, ...server } = await starting;
  say(server);
} catch (error) {
  say({ error: describeThrown(error) });
  process.disconnect?.();
}
