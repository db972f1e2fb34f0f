/** A plain graphile-worker at its defaults, as a process: no option but where its queue is. It reports what it ran. */
import { EventEmitter } from "node:events";
import { type Job, type Runner, run, type WorkerEvents } from "graphile-worker";
import { endWithParent, given } from "../child-end.ts";
import { plainTasks } from "./tasks.ts";

/** What the demo hears of a job that ended. */
export interface JobReport {
  readonly task: string;
  readonly key: string;
  readonly attempts: number;
  readonly ended: "success" | "error";
}

let runner: Runner | undefined;
endWithParent(async () => {
  await runner?.stop();
});

const report = (job: Job, ended: JobReport["ended"]) =>
  process.send?.({ task: job.task_identifier, key: job.key ?? "", attempts: job.attempts, ended } satisfies JobReport);
const events: WorkerEvents = new EventEmitter();
events.on("job:success", ({ job }) => report(job, "success"));
events.on("job:error", ({ job }) => report(job, "error"));

runner = await run({ connectionString: given("DATABASE_URL"), taskList: plainTasks, events, noHandleSignals: true });
process.send?.({ ready: true });
