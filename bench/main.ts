/**
 * Measures effects a second, end to end, beside graphile-worker's plain no-op jobs a second in the same run on the same
 * server. Quote the ratios: absolute numbers are the machine's. `npm run bench -- --quick` takes about half a minute.
 */
import { parseArgs } from "node:util";
import { startEmbedded } from "../src/postgres/embedded.ts";
import { measureEffects } from "./effects.ts";
import { measurePlainJobs } from "./plain-jobs.ts";

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
    line("graphile-worker, no-op job, its defaults", plain, plain);
    line("graphile-worker, no-op job, local queue and batched completion", tuned, plain);
    line("pg-effects, no-op adapter, one task with a budget", shared, plain);
    line("pg-effects, no-op adapter, 200 tasks with a budget each", spread, plain);
  }
} finally {
  await server?.stop();
}

function line(what: string, perSecond: number, beside: number): void {
  const rate = Math.round(perSecond).toString().padStart(7);
  console.log(`${rate}/s  ${(perSecond / beside).toFixed(2).padStart(5)} of plain  ${what}`);
}
