/**
 * The demo's story: chapters, and in them one line for each claim that was observed. A line says `ok` only where the
 * observation is what the claim expects; nothing is told that was not observed. With `--json` it tells nothing on the way.
 */
import { isDeepStrictEqual, styleText } from "node:util";
import { describeThrown } from "../core/text.ts";
import { CLAIMS, type ClaimName, type Observed } from "./claims.ts";

/** Claims are aligned up to here; what the recipient counted stands behind them. */
const SAYS_WIDTH = 86;

export interface Observation {
  readonly claim: ClaimName;
  readonly says: string;
  readonly expected: Observed;
  readonly observed: Observed;
  readonly holds: boolean;
  /** What the recipient counted, where the claim is about a recipient. */
  readonly requests: number | null;
  /** Since the demo began. */
  readonly after_ms: number;
}

export interface Difference {
  readonly claim: ClaimName;
  readonly what: "not observed" | "saw something else";
}

export class Story {
  readonly observations: Observation[] = [];
  readonly faults: string[] = [];
  readonly #began = performance.now();
  readonly #out: NodeJS.WriteStream | null;
  #where = "setting the stage";

  /** `out`: null tells nothing. Colour only on a terminal, and not against NO_COLOR. */
  constructor(out: NodeJS.WriteStream | null) {
    this.#out = out;
  }

  /** Where the story stands, for whoever ends it early. */
  get where(): string {
    return this.#where;
  }

  get elapsedMs(): number {
    return Math.round(performance.now() - this.#began);
  }

  chapter(title: string): void {
    this.#where = title;
    this.line("");
    this.line(this.#styled("bold", title));
  }

  /** Checks an observation against its claim, and tells it. `told`: a count that is shown and not claimed. */
  saw(claim: ClaimName, observed: Observed, told?: { readonly requests: number }): void {
    const { says, expects: expected } = CLAIMS[claim];
    const holds = isDeepStrictEqual({ ...observed }, { ...expected });
    const requests = typeof observed.requests === "number" ? observed.requests : (told?.requests ?? null);
    this.observations.push({ claim, says, expected, observed, holds, requests, after_ms: this.elapsedMs });
    this.#where = says;
    const mark = holds ? this.#styled("green", "ok") : this.#styled("red", "NO");
    this.line(`  ${mark}  ${says.padEnd(SAYS_WIDTH)}  ${requests === null ? "" : counted(requests)}`.trimEnd());
    if (!holds) this.line(`      claimed ${JSON.stringify(expected)}, saw ${JSON.stringify(observed)}`);
  }

  /** Something broke: the demo has failed, whatever its claims say. */
  fault(thrown: unknown): void {
    const text = describeThrown(thrown);
    this.faults.push(text);
    this.line(`  ${this.#styled("red", "NO")}  ${text}`);
  }

  /** Explains, and asserts nothing. */
  line(text: string): void {
    this.#out?.write(`${text}\n`);
  }

  /** The claims that were not observed to hold, each with what is wrong. */
  differing(wanted: readonly ClaimName[]): readonly Difference[] {
    return wanted.flatMap((claim): readonly Difference[] => {
      const seen = this.observations.filter((each) => each.claim === claim);
      if (seen.length === 0) return [{ claim, what: "not observed" }];
      return seen.every(({ holds }) => holds) ? [] : [{ claim, what: "saw something else" }];
    });
  }

  #styled(style: "bold" | "green" | "red", text: string): string {
    return this.#out ? styleText(style, text, { stream: this.#out }) : text;
  }
}

/** `1 request`, `2 requests`. */
export function counted(requests: number): string {
  return requests === 1 ? "1 request" : `${requests} requests`;
}
