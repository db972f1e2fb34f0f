/**
 * The entry of a worker process that a test starts as a child (worker-child.ts): opens the ledger, works, says its name
 * when it takes jobs. On SIGTERM it stops the worker and then ends by itself: what still kept the process alive would
 * show. It ends with the test process, too.
 */
import { openLedger } from "../../src/index.ts";

const { WORKER_DATABASE = "", WORKER_TASKS = "", WORKER_CONCURRENCY } = process.env;

const ledger = await openLedger({ connectionString: WORKER_DATABASE });
const working = await ledger.work({ tasks: WORKER_TASKS, concurrency: Number(WORKER_CONCURRENCY) });

process.once("SIGTERM", async () => {
  const stopped = working.stop();
  process.send?.({ stopping: true });
  await stopped;
  await ledger.close();
  process.off("disconnect", abandoned);
  process.disconnect();
});
process.on("disconnect", abandoned);
process.send?.({ worker: working.id });

/** The test process is gone, so nobody waits for anything here. */
function abandoned(): void {
  process.exit(1);
}
