/**
 * `--keep`: the server in the hands of a process of its own, which ends with the demo until it has been told to stay. From
 * then on it is the server's only owner: its end ends the server and removes the folder.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { extname, join } from "node:path";
import { LedgerError } from "../core/error.ts";
import type { EmbeddedServer } from "../postgres/embedded.ts";

export interface KeptServer extends EmbeddedServer {
  /** SIGTERM to it stops the server and removes its folder. */
  readonly keeperId: number;
  /** From here on the server stays, and `stop` leaves it alone. */
  keep(): Promise<void>;
}

/** What the keeper says: once that the server is there, or why not; and `kept` as its answer to `keep`. */
export type KeeperMessage = Omit<EmbeddedServer, "stop"> | { readonly error: string } | "kept";

/** @throws LedgerError `demo_keeper_ended`, or with the words of the server that did not start */
export async function startKept(): Promise<KeptServer> {
  const entry = join(import.meta.dirname, `keep-process${extname(import.meta.filename)}`);
  const keeper = spawn(process.execPath, [entry], {
    cwd: "/",
    detached: true,
    env: { PATH: process.env.PATH, ...(process.env.TMPDIR ? { TMPDIR: process.env.TMPDIR } : {}) },
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  const exited = once(keeper, "exit").then(() => {
    throw new LedgerError("demo_keeper_ended", "the process that keeps the server has ended");
  });
  exited.catch(() => {}); // once it has been told to stay, its end is nobody's fault here
  const next = async () => {
    const [message] = (await Promise.race([once(keeper, "message"), exited])) as [KeeperMessage];
    return message;
  };
  const started = await next();
  if (started === "kept" || "error" in started) {
    throw new LedgerError("postgres_start_failed", started === "kept" ? "kept nothing" : started.error);
  }
  let kept = false;
  return {
    ...started,
    keeperId: keeper.pid ?? 0,
    async keep() {
      keeper.send("keep");
      await next();
      kept = true;
      keeper.disconnect();
      keeper.unref();
    },
    async stop() {
      if (kept) return;
      keeper.kill("SIGTERM");
      await exited.catch(() => {});
    },
  };
}
