/** A host as a process of its own, so that it can be killed and frozen as operating systems do it. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { InlineEnd } from "../../src/index.ts";
import type { TestLedger } from "../harness/ledger.ts";
import type { Told } from "./host-process.ts";

const ENTRY = fileURLToPath(new URL("./host-process.ts", import.meta.url));

/** How an effect ended in a child: its end, or the code of what was thrown. */
export type Ended = { readonly end: InlineEnd<unknown> } | { readonly code: string };

export interface HostChild {
  readonly pid: number;
  /** Tells it to bring an effect to its end, and says how it ended; never, where it is killed before. */
  effect(told: Told): Promise<Ended>;
  signal(signal: NodeJS.Signals): void;
  /** Kills it, and returns when it is gone. */
  kill(): Promise<void>;
}

/** Starts one on the test's ledger; `through` is another way to the same database. */
export async function startHostChild(subject: TestLedger, through = subject.connectionString): Promise<HostChild> {
  const child = fork(ENTRY, [], {
    execArgv: [], // not the test runner's own
    env: { PATH: process.env.PATH, PG_EFFECTS_RELEASE: "test", HOST_DATABASE: through },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const exited = once(child, "exit");
  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  subject.atEnd(kill);
  await Promise.race([
    once(child, "message"),
    exited.then(([end]) => Promise.reject(new Error(`the host process ended with ${end}`))),
  ]);
  const waiting = new Map<string, (ended: Ended) => void>();
  child.on("message", ({ name, ...ended }: { readonly name: string } & Ended) => waiting.get(name)?.(ended));
  return {
    pid: child.pid as number,
    effect(told) {
      const ended = Promise.withResolvers<Ended>();
      waiting.set(told.name, (end) => ended.resolve(end));
      child.send(told);
      return ended.promise;
    },
    signal: (signal) => child.kill(signal),
    kill,
  };
}
