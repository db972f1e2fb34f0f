/** For the demo's worker processes: they end with their parent, whose death closes the channel, even by SIGKILL. */

/** A worker that cannot stop in this time (its database went with the demo) just ends. */
const STOP_MS_MAX = 6_000;

/** Calls `stop` once, at SIGTERM or when the parent is gone, and ends the process. To be called first of all. */
export function endWithParent(stop: () => Promise<void>): void {
  let ending = false;
  const end = () => {
    if (ending) return;
    ending = true;
    setTimeout(() => process.exit(1), STOP_MS_MAX);
    stop().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.once("SIGTERM", end);
  process.once("disconnect", end);
  if (!process.connected) end();
}

/** A variable that the demo sets for its workers. */
export function given(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: the demo starts this process`);
  return value;
}
