/**
 * The entry of a host process that a test starts as a child (host-child.ts): it runs one effect after the other as it is
 * told, each by one POST to an address, and says how it ended. It ends with the test process, too.
 */
import { LedgerError, openLedger } from "../../src/index.ts";
import { exchange } from "../fixtures/post.ts";

/** An effect that a child is told to bring to its end. */
export interface Told {
  readonly name: string;
  /** Where its run posts. */
  readonly runs: string;
  /** Where its reconcile asks; without it, it cannot ask. */
  readonly asks?: string;
  readonly runTimeoutMs?: number;
}

const { HOST_DATABASE = "" } = process.env;
const ledger = await openLedger({ connectionString: HOST_DATABASE });
const run = ledger.run("order-42");

process.on("message", async ({ name, runs, asks, runTimeoutMs }: Told) => {
  const post = async (url: string) =>
    (await exchange(url, { method: "POST", headers: { "host-pid": String(process.pid) } })) as { receipt: string };
  try {
    const end = await run.effect(
      name,
      {
        run: () => post(runs),
        reconcile: () => (asks === undefined ? Promise.reject(new Error("nobody to ask")) : post(asks)),
      },
      runTimeoutMs === undefined ? {} : { runTimeoutMs },
    );
    process.send?.({ name, end });
  } catch (error) {
    process.send?.({ name, code: error instanceof LedgerError ? error.code : String(error) });
  }
});
process.on("disconnect", () => process.exit(1));
process.send?.({ ready: true });
