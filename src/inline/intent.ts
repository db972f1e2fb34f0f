/**
 * The intent of an inline effect: requested, prepared and admitted in one SERIALIZABLE transaction, by the decision that
 * admits every effect; or nothing of it. What comes out of here may run, once.
 */
import { randomBytes, randomUUID } from "node:crypto";
import type pg from "pg";
import { askUntilSettled } from "../admit/unconfirmed.ts";
import { sha256 } from "../core/digest.ts";
import { LedgerError } from "../core/error.ts";
import { bindInline, decideIntent, decideNeverRun, inlineRunning, inWords, neverRun } from "../core/inline.ts";
import { describeThrown } from "../core/text.ts";
import { EffectUnresolvedError } from "../core/unresolved-error.ts";
import {
  admitInline,
  bindAndLock,
  closeForLoss,
  denialHint,
  type InlineAsked,
  inlineFate,
  requestInline,
} from "../store/inline.ts";
import { CommitUnconfirmedError, isPassing, transact } from "../store/transaction.ts";
import type { InlineHost } from "./host.ts";
import { reportOfRun } from "./report.ts";

/** An intent that stands, known to this process alone: whoever holds its token may run, once. */
export interface Intent {
  readonly effectId: string;
  readonly key: string;
  readonly tokenHash: string;
  /** When COMMIT was sent, by this process's monotonic and wall clocks: its window opens then. */
  readonly opened: { readonly monotonicMs: number; readonly wallMs: number };
}

/** How an admission said no. It is thrown, so that nothing of the transaction stands. */
class RefusedIntent extends Error {
  readonly code: string;
  readonly detail: Readonly<Record<string, string>>;

  constructor(code: string, detail: Readonly<Record<string, string>>) {
    super(code);
    this.code = code;
    this.detail = detail;
  }
}

/** COMMITs that were lost on their way, before it is given up. */
const TRIES_MAX = 5;

/** A caller waits so long for the fate of a COMMIT, in milliseconds; the asking goes on without it. */
const FATE_MS_MAX = 30_000;

/**
 * Records an intent; null where the run has an effect of this name by now.
 * @throws LedgerError of a denial's code, with nothing recorded; `never_run` or EffectUnresolvedError where its COMMIT was
 *   not confirmed: it did not run.
 */
export async function recordIntent(host: InlineHost, asked: InlineAsked, runTimeoutMs: number): Promise<Intent | null> {
  const release = await host.release();
  for (let attempt = 1; ; attempt++) {
    const made = newAttempt();
    try {
      return await host.intents.take(() =>
        host.connections.take(() =>
          transact(host.pool, { isolation: "serializable" }, (client) =>
            writeIntent(host, client, asked, runTimeoutMs, release, made),
          ),
        ),
      );
    } catch (error) {
      if (error instanceof RefusedIntent) throw await inWordsOf(host, asked, error);
      if (!(error instanceof CommitUnconfirmedError) || made.transactionId === null) throw error;
      const fate = await fateOf(host, made);
      if (fate === "aborted" && attempt < TRIES_MAX) continue;
      if (fate === "settled") throw neverRun(made.effectId, asked);
      throw new EffectUnresolvedError(`the intent of ${inWords(asked)} may stand: its COMMIT was not confirmed`, {
        effectId: made.effectId,
        hint: "it did not run; call it again: where the intent stands it asks the recipient",
        cause: error,
      });
    }
  }
}

interface Attempt {
  readonly attempt: string;
  readonly tokenHash: string;
  /** Of the transaction that was tried last. */
  effectId: string;
  transactionId: string | null;
}

function newAttempt(): Attempt {
  // The token itself is used for nothing but its hash: whoever holds it in memory is the holder.
  const tokenHash = sha256(randomBytes(32)).toString("hex");
  return { attempt: randomUUID(), tokenHash, effectId: "", transactionId: null };
}

async function writeIntent(
  host: InlineHost,
  client: pg.PoolClient,
  asked: InlineAsked,
  runTimeoutMs: number,
  release: string,
  made: Attempt,
): Promise<{ readonly last: Promise<unknown>; readonly result: () => Intent | null }> {
  made.transactionId = null;
  const requested = await requestInline(client, asked);
  if (!requested) return { last: Promise.resolve(), result: () => null };
  if (requested.ledgerId !== host.ledgerId) {
    throw new LedgerError("ledger_differs", "this database holds another ledger by now", {
      hint: "open it anew: it was acknowledged as a copy, or another one answers here",
    });
  }
  const { effectId, key, expiresAtMs } = requested;
  const binding = bindInline(asked, requested, release, randomBytes(16));
  const item = { effectId, binding, running: inlineRunning(release), expiresAtMs };
  const locked = await bindAndLock(client, host.worker, item, host.remembered);
  made.transactionId = locked.transactionId;
  made.effectId = effectId;
  const decision = decideIntent(locked.facts);
  if (decision.intent === "refused") throw new RefusedIntent(decision.code, decision.detail);
  const { permitExpiresAtMs, digest } = decision;
  const { attempt, tokenHash } = made;
  // The window opens here: COMMIT follows the last statement in the same packet.
  const opened = { monotonicMs: performance.now(), wallMs: Date.now() };
  const admitted = { effectId, digest, permitExpiresAtMs, attempt, tokenHash, runTimeoutMs };
  return {
    last: admitInline(client, host.worker, admitted),
    result: () => {
      host.remembered = effectId;
      return { effectId, key, tokenHash, opened };
    },
  };
}

/** A denial, as the caller hears it. Where an admission is gone that was confirmed, the ledger is closed for all. */
async function inWordsOf(host: InlineHost, asked: InlineAsked, { code, detail }: RefusedIntent): Promise<LedgerError> {
  const because = Object.entries(detail).map(([what, value]) => `${what} ${value}`);
  const words = because.length > 0 ? `: ${because.join(", ")}` : "";
  const closed =
    host.remembered !== null && "missing" in detail ? await closeForLoss(host.pool, host.remembered) : true;
  const hint = closed
    ? await denialHint(host.pool, code)
    : "a confirmed commit was lost: an operator closes the ledger (pg-effects recovery close), and its owner acknowledges";
  return new LedgerError(code, `${inWords(asked)} is not admitted, nothing is recorded and nothing ran${words}`, {
    hint,
  });
}

/** Asks what became of the COMMIT. Where the intent stands, its holder says that it never ran. */
async function fateOf(host: InlineHost, made: Attempt): Promise<"aborted" | "settled" | "elsewhere" | "unknown"> {
  const { effectId, tokenHash } = made;
  const asking = askUntilSettled(
    host,
    (client) => inlineFate(client, made.transactionId ?? "", { effectId, tokenHash }),
    async () => {
      try {
        await reportOfRun(effectId, tokenHash, decideNeverRun("admission_unconfirmed"))(host);
        return true;
      } catch (error) {
        if (!isPassing(error)) throw error;
        host.log("warning", `that an intent was never run is recorded again: ${describeThrown(error)}`);
        return false;
      }
    },
  );
  asking.catch((error: unknown) => host.log("error", `an unconfirmed intent: ${describeThrown(error)}`));
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"unknown">((resolve) => {
    timer = setTimeout(resolve, FATE_MS_MAX, "unknown");
  });
  try {
    return await Promise.race([asking, late]);
  } finally {
    clearTimeout(timer);
  }
}
