/**
 * A recipient to lose an answer at, for docs/reconciling.md: it books each note that it is sent, and hangs up instead of
 * answering. Asked about a key, it says what it has booked under it. `node examples/forgetful-recipient.ts 8090`
 */
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

interface Booked {
  readonly id: string;
  readonly text: unknown;
}
const booked = new Map<string, Booked>();

const server = createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://recipient");
  if (pathname !== "/notes") {
    response.writeHead(404).end();
    return;
  }
  if (request.method === "POST") {
    const note = (await json(request)) as { readonly text?: unknown };
    const key = String(request.headers["idempotency-key"]);
    const book = booked.get(key) ?? { id: `note_${booked.size + 1}`, text: note.text };
    booked.set(key, book);
    console.log(`booked ${book.id} under ${key}, and hung up`);
    request.socket.destroy();
    return;
  }
  const found = booked.get(searchParams.get("key") ?? "");
  console.log(found ? `asked about ${found.id}, and said so` : "asked about a key that is not here");
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(found ? [found] : []));
});

server.listen(Number(process.argv[2] ?? 8090), "127.0.0.1", () => {
  const address = server.address();
  console.log(`listens on http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/notes`);
});
