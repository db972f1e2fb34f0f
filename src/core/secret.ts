/**
 * Secrets: named in the contract, resolved when an adapter asks, never part of a record. What an adapter's words may
 * repeat of them is struck out before it is kept, and what it would have bound is found before it is.
 */
import { LedgerError } from "./error.ts";
import { type SecretForm, secretForms, standsIn, withoutForm } from "./secret-forms.ts";

/** Names to values, in practice the environment. */
export type SecretSource = Readonly<Record<string, string | undefined>>;

/** The secrets of one adapter call. */
export class Secrets {
  readonly #declared: readonly string[];
  readonly #source: SecretSource;
  /** Every form of every value, the longest first: a secret that begins with another one goes before it. */
  #forms: readonly SecretForm[] | null = null;

  constructor(declared: readonly string[], source: SecretSource) {
    this.#declared = declared;
    this.#source = source;
  }

  /** @throws LedgerError `secret_undeclared` for a name that the contract lacks, `secret_missing` where it has no value. */
  get(name: string): string {
    if (!this.#declared.includes(name)) {
      throw new LedgerError("secret_undeclared", `the contract declares no secret ${name}`, {
        hint: `add it to contract.secrets`,
      });
    }
    const value = this.#source[name];
    if (value === undefined || value === "") {
      throw new LedgerError("secret_missing", `the secret ${name} has no value`, {
        hint: `set the environment variable ${name} where the worker runs`,
      });
    }
    return value;
  }

  /** The text without any declared secret's value in any of its forms. Never throws. */
  strikeOut(text: string): string {
    return this.#all().reduce(withoutForm, text);
  }

  /** A parsed JSON value whose strings, keys and numbers repeat no secret; a number that does becomes a string. */
  strikeOutOf(value: Json): Json {
    if (typeof value === "string") return this.strikeOut(value);
    if (typeof value === "number") {
      const struck = this.strikeOut(String(value));
      return struck === String(value) ? value : struck;
    }
    if (Array.isArray(value)) return value.map((element: Json) => this.strikeOutOf(element));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [this.strikeOut(key), this.strikeOutOf(inner)]),
    );
  }

  /** Which secret a parsed JSON value repeats first, and where, as a JSON pointer without it; null where it repeats none. */
  findIn(value: Json, path = ""): FoundSecret | null {
    if (this.#all().length === 0 || value === null || typeof value === "boolean") return null;
    if (typeof value !== "object") {
      const form = this.#all().find((each) => standsIn(String(value), each));
      return form ? { name: form.name, path: this.strikeOut(path) } : null;
    }
    for (const [key, inner] of Object.entries(value)) {
      const place = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      const found = this.findIn(key, place) ?? this.findIn(inner, place);
      if (found) return found;
    }
    return null;
  }

  #all(): readonly SecretForm[] {
    this.#forms ??= this.#declared
      .flatMap((name) => secretForms(name, this.#source[name] ?? ""))
      .sort((a, b) => b.text.length - a.text.length);
    return this.#forms;
  }
}

export interface FoundSecret {
  readonly name: string;
  readonly path: string;
}

/** Any value of a parsed JSON text. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Nothing to strike out: for text that no adapter had a hand in. */
export const NO_SECRETS = new Secrets([], {});
