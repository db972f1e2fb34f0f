/** Starts the workers of both sides with an environment that says where their recipients are: behind their side's proxies. */
import { join } from "node:path";
import { LEDGER_NAME, withParts } from "./databases.ts";
import type { JobReport } from "./plain/worker-process.ts";
import type { Proxies, Stage } from "./stage.ts";
import { until } from "./wait.ts";
import { WorkerChild } from "./worker-child.ts";

/**
 * A worker of pg-effects, with the operations in `src/demo/tasks`. It is there when its heartbeat with its pool is on
 * record: from then on its jobs are freed once it is silent.
 */
export async function startEffectsWorker(stage: Stage, name: string): Promise<WorkerChild> {
  const { databases, effects } = stage;
  const worker = await start(stage, name, "worker-process", {
    ...common(stage, effects),
    DATABASE_URL: databases.ledger,
    PG_EFFECTS_LEDGER: LEDGER_NAME,
    PG_EFFECTS_RELEASE: "demo",
    ...effectsSecrets(stage),
  });
  await until(
    `the heartbeat of ${name}`,
    async () => {
      const { rowCount } = await databases.pools.ledger.query(
        "select from effects_ledger.worker where worker ~ $1 and pools <> '{}'",
        [workerPattern(worker)],
      );
      return rowCount === 1 ? true : null;
    },
    stage,
  );
  return worker;
}

/** How the ledger names a worker: host, process id, a random part. */
export function workerPattern({ processId }: WorkerChild): string {
  return `-${processId}-[0-9a-f]+$`;
}

/** What the operations of `tasks/` read. `MAIL_IMAP_URL` is not set: the mail server has no mailboxes. */
export function effectsSecrets({ databases, effects }: Stage): Readonly<Record<string, string>> {
  return {
    POSTGRES_INSERT_URL: withParts(databases.recipient, { port: effects.recipient.port }),
    MAIL_SMTP_URL: `smtp://127.0.0.1:${effects.mail.port}?tls=never`,
  };
}

/** A graphile-worker at its defaults, with the plain tasks. */
export function startPlainWorker(
  stage: Stage,
  name: string,
  onReport: (report: JobReport) => void,
): Promise<WorkerChild> {
  const { databases, plain, git } = stage;
  const environment = {
    ...common(stage, plain),
    DATABASE_URL: databases.queue,
    RECIPIENT_URL: withParts(databases.recipient, { port: plain.recipient.port }),
    MAIL_URL: `smtp://127.0.0.1:${plain.mail.port}/?ignoreTLS=true`,
    GIT_REMOTE: git.urlAt(plain.git.port),
    GIT_WORK_FOLDER: git.workFolder,
  };
  return start(stage, name, "plain/worker-process", environment, (message) => onReport(message as JobReport));
}

async function start(
  stage: Stage,
  name: string,
  entry: string,
  environment: Readonly<Record<string, string>>,
  onMessage?: (message: unknown) => void,
): Promise<WorkerChild> {
  const { folder, signal, fail, endings } = stage;
  const worker = await WorkerChild.start({
    name,
    entry,
    folder,
    environment,
    signal,
    onUnaskedEnd: fail,
    ...(onMessage ? { onMessage } : {}),
  });
  stage.processes.push(worker.processId);
  endings.add(name, () => worker.stop());
  return worker;
}

/** git finds no settings of the host's user, and temporary files go with the demo's folder. */
function common({ folder, cardsKey }: Stage, proxies: Proxies): Readonly<Record<string, string>> {
  return {
    PATH: process.env.PATH ?? "",
    HOME: folder,
    TMPDIR: join(folder, "tmp"),
    CARDS_URL: `http://127.0.0.1:${proxies.cards.port}`,
    CARDS_KEY: cardsKey,
  };
}
