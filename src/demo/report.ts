/** The last lines of the demo, or its JSON document: what differs, how long it took, and with `--keep` how to connect. */

import { withParts } from "./databases.ts";
import type { KeptServer } from "./keep.ts";
import type { Played } from "./play.ts";
import type { Difference, Story } from "./story.ts";

/** What the demo is, before the first scene. */
export function tellBeginning(story: Story): void {
  story.line(
    "pg-effects demo: real workers, faults on the wire, recipients that count. About half a minute, no key to press.",
  );
  story.line(
    "The card API, the git and the mail server are ours, on loopback; the API speaks Idempotency-Key. Postgres is real.",
  );
}

export function tellEnd(story: Story, differing: readonly Difference[]): void {
  const seconds = (story.elapsedMs / 1_000).toFixed(0);
  story.line("");
  if (differing.length === 0 && story.faults.length === 0) {
    story.line(`${story.observations.length} claims, each observed to hold, in ${seconds} s.`);
    return;
  }
  story.line(`This run is not what the demo claims, after ${seconds} s and ${story.observations.length} claims:`);
  for (const fault of story.faults) story.line(`  ${fault}`);
  // After a fault the scenes that were not played are no news.
  const seen = new Set<string>(story.observations.map(({ claim }) => claim));
  for (const { claim, what } of differing) {
    if (seen.has(claim) || story.faults.length === 0) story.line(`  ${claim}: ${what}`);
  }
}

export function tellKept(story: Story, kept: KeptServer): void {
  story.line("");
  story.line("Kept, as asked for:");
  story.line(`  connect   psql '${ledgerOf(kept)}'`);
  story.line(`  data      ${kept.dataDirectory}`);
  story.line(`  remove    kill ${kept.keeperId}     stops the server and removes its folder`);
}

export interface Told {
  readonly differing: readonly Difference[];
  readonly played: Played | undefined;
  readonly processes: readonly number[];
  readonly kept: KeptServer | undefined;
}

/** One document on stdout. The password stands in `kept.connection_string` only. */
export function printDocument(story: Story, { differing, played, processes, kept }: Told): void {
  const document = {
    holds: differing.length === 0 && story.faults.length === 0,
    duration_ms: story.elapsedMs,
    claims: story.observations,
    differing,
    faults: story.faults,
    effects: played?.compared ?? [],
    audit: played?.audit ?? [],
    // Of the server and of the workers, all ended unless kept.
    processes,
    kept: kept
      ? { connection_string: ledgerOf(kept), data_directory: kept.dataDirectory, process_id: kept.keeperId }
      : null,
  };
  process.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
}

function ledgerOf(kept: KeptServer): string {
  return withParts(kept.connectionString, { database: "ledger" });
}
