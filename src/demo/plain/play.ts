/**
 * The same faults for the plain tasks, at the same recipients, beside the scenes of pg-effects. It observes and returns;
 * it is told afterwards (`scenes/plain.ts`), in one piece.
 */
import { countShipments, PACKERS } from "../databases.ts";
import { contains } from "../recipients/fault-rule.ts";
import { BEYOND_CENTS } from "../scenes/budget.ts";
import { CENTS } from "../scenes/charge.ts";
import { THE_INSERT } from "../scenes/insert.ts";
import { MAIL, mailsTo, THE_MESSAGE } from "../scenes/mail.ts";
import { THE_PUSH, THE_REPORT } from "../scenes/push.ts";
import type { Stage } from "../stage.ts";
import { reached, until } from "../wait.ts";
import { startPlainWorker } from "../workers.ts";
import type { JobReport } from "./worker-process.ts";

const CUSTOMER = "plain:42";
const BEYOND_CUSTOMER = "plain:43";
const BRANCH = "plain";
const TO = "plain@example.test";

/** Polls of 2 s, a first backoff of 2.7 s, four jobs one after the other, and room. */
const JOBS_MS_MAX = 40_000;

export interface PlainFacts {
  readonly locked: { signal: string | null; locked: boolean; attempts: number; requests: number };
  readonly charge: { attempts: number; booked: number; requests: number };
  readonly push: { attempts: number; branch_moved: boolean; requests: number; requests_in_first_try: number };
  readonly insert: { attempts: number; rows: number; requests: number };
  readonly mail: { attempts: number; requests: number };
  readonly budget: { attempts: number; booked: number; requests: number };
}

export async function playPlain(stage: Stage): Promise<PlainFacts> {
  const { cards, git, mail, plain, signal, databases } = stage;
  const reports: JobReport[] = [];
  const pushes = () => git.pushesTo(`refs/heads/${BRANCH}`);
  let pushesInFirstTry = 0;
  const onReport = (report: JobReport) => {
    reports.push(report);
    if (report.key === "push" && report.attempts === 1) pushesInFirstTry = pushes();
  };
  const attemptsOf = (key: string) =>
    reports.find((report) => report.key === key && report.ended === "success")?.attempts;
  const succeeded = async (...keys: readonly string[]) => {
    const all = () => (keys.every((key) => attemptsOf(key) !== undefined) ? true : null);
    await until(`the plain jobs ${keys.join(", ")}`, all, { signal, ms: JOBS_MS_MAX });
  };

  const first = await startPlainWorker(stage, "the plain worker that is killed", onReport);
  const answer = plain.cards.holdReply({ to: contains("POST /v1/charges") });
  await add(stage, "charge_card", "charge", { customer: CUSTOMER, cents: CENTS });
  await reached("the plain charge at the card API", answer.reached, signal);
  const ended = await first.kill();
  answer.drop();

  const commit = await git.commit({ content: "release 7\n", message: "Release 7, plain" });
  await git.moveBranch(BRANCH, git.initialCommit);
  plain.git.cutReply({ to: THE_PUSH, after: THE_REPORT });
  plain.recipient.cutBeforeRequest({ match: THE_INSERT });
  plain.mail.cutReply({ to: THE_MESSAGE });
  await startPlainWorker(stage, "the plain worker", onReport);
  await add(stage, "git_push", "push", { branch: BRANCH, commit });
  await add(stage, "postgres_insert", "insert", { order_no: "1001", packed_by: PACKERS.plain });
  await add(stage, "mail_send", "mail", { ...MAIL, to: TO });
  await add(stage, "charge_card", "beyond", { customer: BEYOND_CUSTOMER, cents: BEYOND_CENTS });
  await succeeded("push", "insert", "mail", "beyond");

  const job = await chargeJob(stage);
  const locked = {
    signal: ended,
    locked: job.locked_by !== null,
    attempts: job.attempts,
    requests: cards.requestsOf(CUSTOMER),
  };
  await databases.pools.queue.query("select graphile_worker.force_unlock_workers($1)", [[job.locked_by]]);
  await succeeded("charge");
  return {
    locked,
    charge: {
      attempts: attemptsOf("charge") ?? 0,
      booked: cards.chargesOf(CUSTOMER).length,
      requests: cards.requestsOf(CUSTOMER),
    },
    push: {
      attempts: attemptsOf("push") ?? 0,
      branch_moved: (await git.ref(`refs/heads/${BRANCH}`)) === commit,
      requests: pushes(),
      requests_in_first_try: pushesInFirstTry,
    },
    insert: { attempts: attemptsOf("insert") ?? 0, ...(await countShipments(databases.pools.recipient, "plain")) },
    mail: { attempts: attemptsOf("mail") ?? 0, requests: mailsTo(mail, TO) },
    budget: {
      attempts: attemptsOf("beyond") ?? 0,
      booked: cards.chargesOf(BEYOND_CUSTOMER).length,
      requests: cards.requestsOf(BEYOND_CUSTOMER),
    },
  };
}

/** As an application adds it, all options at their defaults but the key, by which we find it again. */
async function add({ databases }: Stage, task: string, key: string, payload: object): Promise<void> {
  await databases.pools.queue.query("select graphile_worker.add_job($1, $2::json, job_key => $3)", [
    task,
    JSON.stringify(payload),
    key,
  ]);
}

async function chargeJob({
  databases,
}: Stage): Promise<{ readonly locked_by: string | null; readonly attempts: number }> {
  const { rows } = await databases.pools.queue.query<{ locked_by: string | null; attempts: number }>(
    "select locked_by, attempts::int from graphile_worker.jobs where key = 'charge'",
  );
  return rows[0] ?? { locked_by: null, attempts: 0 };
}
