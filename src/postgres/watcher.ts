/**
 * Ends the embedded server when its owner dies without a word (SIGKILL, a crash): a shell that reads from a pipe only the
 * owner holds. Its end of file is the owner's death, whatever the cause; no hook in the owner is needed, and none could
 * survive SIGKILL. The watcher belongs to no terminal, so that Ctrl-C does not reach it.
 *
 * It must never signal a process that is not its server: it is told when the server has exited, before the system can
 * give that number to another process.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";
import { runAs, type ServerUser, serverEnvironment } from "./server-user.ts";

/**
 * Lines: a process id to guard, `exited` when it has, `leave` when there is nothing left to watch. At the end of file:
 * fast shutdown, immediate shutdown after 10 s, and then the folders given as arguments go.
 */
const SCRIPT = `
server=
while read -r line; do
  case $line in leave) exit 0 ;; exited) server= ;; *) server=$line ;; esac
done
ended() {
  tries=100
  while kill -0 "$server" && [ "$tries" -gt 0 ]; do tries=$((tries - 1)); sleep 0.1; done
  [ "$tries" -gt 0 ]
}
if [ -n "$server" ]; then
  kill -INT "$server" && { ended || { kill -QUIT "$server"; ended; }; }
fi
rm -rf -- "$@"
`;

export interface Watcher {
  /** From now on this child of ours dies with us. */
  guard(child: ChildProcess): void;
  /** Ends the watcher: what it guarded is gone, or is ours alone to end. */
  dismiss(): Promise<void>;
}

/** Starts a watcher that removes `folders` if this process dies before it dismisses it. */
export async function startWatcher(folders: readonly string[], user: ServerUser | null): Promise<Watcher> {
  const shell = spawn("/bin/sh", ["-c", SCRIPT, "pg-effects-watcher", ...folders], {
    cwd: "/",
    detached: true,
    env: serverEnvironment(),
    stdio: ["pipe", "ignore", "ignore"],
    ...runAs(user),
  });
  await once(shell, "spawn");
  const exited = once(shell, "exit");
  // Somebody killed the watcher: the server then lives unwatched, which is no reason for its owner to fail.
  shell.stdin.on("error", () => {});
  // Neither the shell nor its pipe keeps this process from ending.
  shell.unref();
  if (shell.stdin instanceof Socket) shell.stdin.unref();
  return {
    guard(child) {
      if (child.pid === undefined) return;
      shell.stdin.write(`${child.pid}\n`);
      child.once("exit", () => shell.stdin.write("exited\n"));
    },
    async dismiss() {
      shell.ref();
      shell.stdin.end("leave\n");
      await exited;
    },
  };
}
