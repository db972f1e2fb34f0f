/** A pg-effects worker as the demo runs it: a process with the demo's operations, by the public interface. */
import { join } from "node:path";
import { openLedger, type Working } from "../index.ts";
import { endWithParent, given } from "./child-end.ts";

let working: Working | undefined;
endWithParent(async () => {
  await working?.stop();
});

const ledger = await openLedger({ connectionString: given("DATABASE_URL"), ledger: given("PG_EFFECTS_LEDGER") });
working = await ledger.work({ tasks: join(import.meta.dirname, "tasks"), concurrency: 4 });
process.send?.({ ready: true });
