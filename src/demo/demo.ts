/**
 * `pg-effects demo`: real worker processes, faults on the wire, recipients on loopback, and every claim checked. No key is
 * pressed and nothing is left behind, however it ends; `keep` leaves the server and its ledger.
 */
import { dirname } from "node:path";
import { LedgerError } from "../core/error.ts";
import { type EmbeddedServer, startEmbedded } from "../postgres/embedded.ts";
import { openClient } from "../store/connection.ts";
import { askedTwice } from "./asked.ts";
import { wantedClaims } from "./claims.ts";
import { Endings } from "./endings.ts";
import { type KeptServer, startKept } from "./keep.ts";
import { left } from "./left.ts";
import { type Played, play } from "./play.ts";
import { printDocument, tellBeginning, tellEnd, tellKept } from "./report.ts";
import { type Stage, setStage } from "./stage.ts";
import { Story } from "./story.ts";

export interface DemoOptions {
  /** Leaves the server and the ledger, and prints how to connect. */
  readonly keep: boolean;
  /** One JSON document of the same facts at the end, instead of the story. */
  readonly json: boolean;
}

/** A run takes about half a minute. From here on it is ended in order. */
const PLAY_MS_MAX = 75_000;

/** From here on it is ended anyhow; the watchers of the server and of the folder see to the rest. */
const DEMO_MS_MAX = 90_000;

/** Runs the demo and returns the exit code: 0 if everything was as claimed, 1 if not, 128 and the signal's number. */
export async function runDemo({ keep, json }: DemoOptions): Promise<number> {
  const story = new Story(json ? null : process.stdout);
  const run = new AbortController();
  const endings = new Endings();
  const bounds = startBounds(story, run);
  tellBeginning(story);
  let stage: Stage | undefined;
  let played: Played | undefined;
  let kept: KeptServer | undefined;
  try {
    stage = await setStage({
      signal: run.signal,
      fail: (error) => run.abort(error),
      endings,
      startServer: async (): Promise<EmbeddedServer> => {
        if (!keep) return startEmbedded();
        kept = await startKept();
        return kept;
      },
    });
    played = await play(stage, story);
    run.signal.throwIfAborted();
    await kept?.keep();
  } catch (error) {
    story.fault(error);
    kept = undefined;
  }
  for (const fault of await endings.run()) story.fault(fault);
  if (stage) await checkEnd(stage, story, kept);
  bounds.clear();
  const differing = story.differing(wantedClaims(kept !== undefined));
  tellEnd(story, differing);
  if (kept) tellKept(story, kept);
  if (json) printDocument(story, { differing, played, processes: stage?.processes ?? [], kept });
  return bounds.exitCode ?? (differing.length === 0 && story.faults.length === 0 ? 0 : 1);
}

/** Also after a fault: whichever process died at whatever moment, these hold. */
async function checkEnd(stage: Stage, story: Story, kept: KeptServer | undefined): Promise<void> {
  story.chapter("The end");
  story.saw("nothing_twice", { asked_twice: askedTwice(stage) });
  const { processes, folder, server } = stage;
  if (!kept) story.saw("nothing_left", await left(processes, [folder, dirname(server.dataDirectory)]));
  else {
    const others = processes.filter((processId) => processId !== server.processId);
    story.saw("kept", { ...(await lookInto(stage)), ...(await left(others, [folder])) });
  }
}

/** As somebody who connects afterwards. */
async function lookInto({ databases }: Stage): Promise<{ readonly ledger: string; readonly effects: number }> {
  const client = await openClient(databases.ledger, "pg-effects demo");
  try {
    const { rows } = await client.query<{ ledger: string; effects: number }>(
      "select (select name from effects_ledger.identity) as ledger, (select count(*)::int from audit.effects) as effects",
    );
    return rows[0] ?? { ledger: "", effects: 0 };
  } finally {
    await client.end();
  }
}

interface Bounds {
  /** Set when a signal ended the demo. */
  readonly exitCode: number | undefined;
  clear(): void;
}

const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

/** Ctrl-C, SIGTERM and the clock: each ends the play, and everything is ended in order. */
function startBounds(story: Story, run: AbortController): Bounds {
  let exitCode: number | undefined;
  const handlers = Object.entries(SIGNALS).map(([signal, code]) => {
    const handler = () => {
      exitCode ??= code;
      run.abort(new LedgerError("demo_interrupted", `${signal} came at: ${story.where}`));
    };
    process.on(signal, handler);
    return [signal, handler] as const;
  });
  const inOrder = setTimeout(() => {
    run.abort(new LedgerError("demo_too_slow", `after ${PLAY_MS_MAX / 1_000} s it stood at: ${story.where}`));
  }, PLAY_MS_MAX);
  const atLast = setTimeout(() => {
    console.error(`pg-effects demo: after ${DEMO_MS_MAX / 1_000} s it stood at: ${story.where}`);
    process.exit(1);
  }, DEMO_MS_MAX);
  return {
    get exitCode() {
      return exitCode;
    },
    clear() {
      for (const timer of [inOrder, atLast]) clearTimeout(timer);
      for (const [signal, handler] of handlers) process.off(signal, handler);
    },
  };
}
