/**
 * What the scenes play on: the server with its databases, the recipients, and for each of the two sides (pg-effects, the
 * plain queue) a fault proxy before every recipient, so that a fault meets the side that it is meant for.
 */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MARK_TABLE_SQL } from "../../tasks/postgres_insert.ts";
import { type Ledger, openLedger } from "../index.ts";
import type { EmbeddedServer } from "../postgres/embedded.ts";
import { startWatcher } from "../postgres/watcher.ts";
import { createDatabases, type Databases, LEDGER_NAME } from "./databases.ts";
import type { Endings } from "./endings.ts";
import { removeFolder } from "./folders.ts";
import { type CardApi, startCardApi } from "./recipients/card-api.ts";
import { type FaultProxy, startFaultProxy } from "./recipients/fault-proxy.ts";
import { type GitRepository, startGitRepository } from "./recipients/git-repository.ts";
import { type MailSink, startMailSink } from "./recipients/mail-sink.ts";

export interface Proxies {
  readonly cards: FaultProxy;
  readonly git: FaultProxy;
  readonly recipient: FaultProxy;
  readonly mail: FaultProxy;
}

export interface Stage {
  /** Aborted when the demo is to end early, with the reason. */
  readonly signal: AbortSignal;
  /** Ends the demo early, with the reason; the first one counts. */
  readonly fail: (reason: unknown) => void;
  readonly endings: Endings;
  /** Of the server and of every worker that was started: at the end none of them runs. */
  readonly processes: number[];
  /** Everything temporary lies in it. */
  readonly folder: string;
  readonly server: EmbeddedServer;
  readonly databases: Databases;
  readonly ledger: Ledger;
  readonly cards: CardApi;
  readonly cardsKey: string;
  readonly git: GitRepository;
  readonly mail: MailSink;
  readonly effects: Proxies;
  readonly plain: Proxies;
}

export interface StageOptions extends Pick<Stage, "signal" | "fail" | "endings"> {
  /** In this process, or for `--keep` in a process that outlives it. */
  readonly startServer: () => Promise<EmbeddedServer>;
}

/** Sets it, and tells `endings` of each part as soon as that part is there. */
export async function setStage(options: StageOptions): Promise<Stage> {
  const { signal, endings } = options;
  const started = <Part extends { stop(): Promise<void> }>(what: string, part: Part): Part => {
    endings.add(what, () => part.stop());
    return part;
  };
  const folder = await openFolder(endings);
  const cardsKey = `key_${randomBytes(16).toString("hex")}`;
  const starting = [
    options.startServer().then((part) => started("the Postgres server", part)),
    startCardApi({ token: cardsKey }).then((part) => started("the card API", part)),
    startGitRepository({ around: folder }).then((part) => started("the git repository", part)),
    startMailSink().then((part) => started("the mail server", part)),
  ] as const;
  // First all of them, however they end: what comes up after a failure would be ended by nobody.
  await Promise.allSettled(starting);
  const [server, cards, git, mail] = await Promise.all(starting);
  signal.throwIfAborted();
  const databases = await createDatabases(server.connectionString, MARK_TABLE_SQL);
  for (const pool of Object.values(databases.pools)) endings.add("a connection pool", () => pool.end());
  const ledger = await openLedger({ connectionString: databases.ledger, ledger: LEDGER_NAME });
  endings.add("the ledger", () => ledger.close());
  const side = async (): Promise<Proxies> => {
    const before = async (target: { host: string; port: number }) =>
      started("a fault proxy", await startFaultProxy({ target }));
    return {
      cards: await before(cards),
      git: await before(git),
      recipient: await before({ host: "127.0.0.1", port: server.port }),
      mail: await before(mail),
    };
  };
  const effects = await side();
  const plain = await side();
  const processes = [server.processId];
  return {
    signal,
    fail: options.fail,
    endings,
    processes,
    folder,
    server,
    databases,
    ledger,
    cards,
    cardsKey,
    git,
    mail,
    effects,
    plain,
  };
}

/** The demo's folder; a watcher removes it even if this process dies without a word. */
async function openFolder(endings: Endings): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "pg-effects-demo-"));
  endings.add("the demo's folder", () => removeFolder(folder));
  const watcher = await startWatcher([folder], null);
  endings.add("the folder's watcher", () => watcher.dismiss());
  await mkdir(join(folder, "tmp"));
  return folder;
}
