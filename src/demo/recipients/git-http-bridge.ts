/**
 * git over HTTP on loopback: a bridge from node:http to the CGI program `git http-backend`. It serves anybody who can
 * reach the loopback port. A push that has arrived whole is carried out to its end, even if its client is gone.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type Listener, listenOnLoopback } from "./loopback.ts";

/** git asks with this alone whether a large push would be let in: no push yet. */
const FLUSH_PACKET = "0000";

/** How much of a push is kept to read its commands from: a handful of refs. The rest goes to git only. */
const COMMAND_BYTES_MAX = 4_096;

export interface GitHttpBridge extends Listener {
  /** `POST …/git-receive-pack` that arrived whole with something to push, also those that git then refused. */
  readonly pushes: number;
  /** Those of them that ask for this ref (`refs/heads/main`) to change. */
  pushesTo(ref: string): number;
}

export interface GitHttpBridgeOptions {
  readonly backend: string;
  /** The folder whose repositories are served. */
  readonly root: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** @throws LedgerError `recipient_not_started` */
export async function startGitHttpBridge(options: GitHttpBridgeOptions): Promise<GitHttpBridge> {
  const running = new Set<ChildProcess>();
  let pushes = 0;
  const pushesByRef = new Map<string, number>();

  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://loopback");
    const child = spawn(options.backend, {
      env: { ...options.environment, ...cgiVariables(request, url, options.root) },
      stdio: ["pipe", "pipe", "ignore"],
    });
    running.add(child);
    child.once("close", () => running.delete(child));
    child.once("error", () => response.destroy());
    // The backend may refuse before it has read everything: its answer says so, a broken pipe adds nothing.
    child.stdin.on("error", () => undefined);

    let bytes = 0;
    let start = "";
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (start.length < COMMAND_BYTES_MAX) start += chunk.subarray(0, COMMAND_BYTES_MAX).toString("latin1");
      child.stdin.write(chunk);
    });
    request.once("end", () => {
      const isProbe = bytes === FLUSH_PACKET.length && start === FLUSH_PACKET;
      if (url.pathname.endsWith("/git-receive-pack") && request.method === "POST" && bytes > 0 && !isProbe) {
        pushes += 1;
        for (const ref of refsOf(start)) pushesByRef.set(ref, (pushesByRef.get(ref) ?? 0) + 1);
      }
      child.stdin.end();
    });
    request.once("close", () => {
      if (!request.complete) child.kill();
    });
    void answer(child, response);
  });
  const listener = await listenOnLoopback(server);

  return {
    host: listener.host,
    port: listener.port,
    get pushes() {
      return pushes;
    },
    pushesTo: (ref) => pushesByRef.get(ref) ?? 0,
    async stop() {
      await listener.stop();
      await Promise.all(
        [...running].map(async (child) => {
          const closed = once(child, "close");
          child.kill();
          await closed;
        }),
      );
    },
  };
}

/** The refs that a push asks to change: packets of `old new ref`, each after its length in hex, up to the flush packet. */
function refsOf(start: string): readonly string[] {
  const refs: string[] = [];
  for (let at = 0; ; ) {
    const length = Number.parseInt(start.slice(at, at + 4), 16);
    const packet = start.slice(at + 4, at + length);
    if (!(length > 4) || packet.length < length - 4) return refs;
    const ref = /^[0-9a-f]+ [0-9a-f]+ ([^\0\n]+)/.exec(packet)?.[1];
    if (ref !== undefined) refs.push(ref);
    at += length;
  }
}

/** The CGI variables of RFC 3875 that the backend reads, and the protocol version. */
function cgiVariables(request: IncomingMessage, url: URL, root: string): NodeJS.ProcessEnv {
  const { headers } = request;
  return {
    GIT_PROJECT_ROOT: root,
    GIT_HTTP_EXPORT_ALL: "1",
    GATEWAY_INTERFACE: "CGI/1.1",
    SERVER_PROTOCOL: "HTTP/1.1",
    REQUEST_METHOD: request.method ?? "GET",
    PATH_INFO: decodeURIComponent(url.pathname),
    QUERY_STRING: url.search.slice(1),
    CONTENT_TYPE: headers["content-type"] ?? "",
    REMOTE_ADDR: request.socket.remoteAddress ?? "",
    // Absent for a chunked body: the backend then reads to the end of its input.
    ...(headers["content-length"] === undefined ? {} : { CONTENT_LENGTH: headers["content-length"] }),
    ...(headers["content-encoding"] === undefined ? {} : { HTTP_CONTENT_ENCODING: headers["content-encoding"] }),
    ...(typeof headers["git-protocol"] === "string" ? { GIT_PROTOCOL: headers["git-protocol"] } : {}),
  };
}

/** Turns what the backend prints (header lines, an empty line, the body) into the HTTP answer. */
async function answer(child: ChildProcess, response: ServerResponse): Promise<void> {
  if (child.stdout === null) return;
  let head: Buffer | null = Buffer.alloc(0);
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    if (head === null) {
      response.write(chunk);
      continue;
    }
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end === -1) continue;
    writeHead(response, head.subarray(0, end).toString("latin1"));
    response.write(head.subarray(end + 4));
    head = null;
  }
  if (head === null) response.end();
  else response.destroy(); // it ended without an answer
}

function writeHead(response: ServerResponse, head: string): void {
  for (const line of head.split("\r\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).trim();
    if (name.toLowerCase() === "status") response.statusCode = Number.parseInt(value, 10);
    else response.setHeader(name, value);
  }
}
