/**
 * Measures effects a second, end to end, beside graphile-worker's plain no-op jobs a second in the same run on the same
 * server, requests a second, one by one beside many in a call, and inspections of unresolved effects beside the same lookups made
 * bare. Quote the ratios: absolute numbers are the machine's. `npm run bench -- --quick` takes about half a minute.
 */
import { parseArgs } from "node:util";
import { startEmbedded } from "../src/postgres/embedded.ts";
import { measureEffects } from "./effects.ts";
import { measureInspections } from "./inspections.ts";
import { measurePlainJobs } from "./plain-jobs.ts";
import { measureRequests } from "./requests.ts";

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    database: { type: "string" }, // a server of your own, as its superuser; default: the embedded one
    effects: { type: "string" },
    concurrency: { type: "string", default: "512" },
  },
});
const count = Number(values.effects ?? (values.quick ? 8_000 : 20_000));
const concurrency = Number(values.concurrency);
const rounds = values.quick ? 1 : 3;

const server = values.database ? null : await startEmbedded();
const connectionString = values.database ?? (server as { connectionString: string }).connectionString;
try {
  console.log(`${count} of each, concurrency ${concurrency}, ${rounds} round(s), fsync and synchronous_commit on`);
  for (let round = 1; round <= rounds; round++) {
    const tuned = await measurePlainJobs({ connectionString, count, concurrency, batched: true });
    const plain = await measurePlainJobs({ connectionString, count, concurrency, batched: false });
    const shared = await measureEffects({ connectionString, count, concurrency, tasks: 1 });
    const spread = await measureEffects({ connectionString, count, concurrency, tasks: 200 });
    const asked = { connectionString, count: count / 2, callers: 8 };
    const single = await measureRequests({ ...asked, batch: 1 });
    const many = await measureRequests({ ...asked, batch: 200 });
    line("graphile-worker, no-op job, its defaults", plain, plain);
    line("graphile-worker, no-op job, local queue and batched completion", tuned, plain);
    line("pg-effects, no-op adapter, one task with a budget", shared, plain);
    line("pg-effects, no-op adapter, 200 tasks with a budget each", spread, plain);
    line("requests, one a transaction, 8 callers", single, single, "single");
    line("requests, 200 a call, 8 callers", many, single, "single");
    const doubts = await measureInspections({ connectionString, count: count / 4 });
    line("lookups at a recipient, 16 at once", doubts.bare, doubts.bare, "bare");
    const heap = `heap up by ${doubts.heapRiseMiB} MiB`;
    line(`pg-effects, inspections of ${count / 4} unresolved effects, ${heap}`, doubts.inspected, doubts.bare, "bare");
  }
} finally {
  await server?.stop();
}

function line(what: string, perSecond: number, beside: number, yardstick = "plain"): void {
  const rate = Math.round(perSecond).toString().padStart(7);
  console.log(`${rate}/s  ${(perSecond / beside).toFixed(2).padStart(5)} of ${yardstick.padEnd(6)}  ${what}`);
}
