/**
 * Secrets: named in the contract, resolved when an adapter asks, never part of a record. What an adapter's words may
 * repeat of them is struck out before it is kept.
 */
import { LedgerError } from "./error.ts";

/** Names to values, in practice the environment. */
export type SecretSource = Readonly<Record<string, string | undefined>>;

/** Shorter values are too common in ordinary text to be struck out of it. */
const STRUCK_OUT_LENGTH_MIN = 4;

/** The secrets of one adapter call. */
export class Secrets {
  readonly #declared: readonly string[];
  readonly #source: SecretSource;

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

  /** The text without any declared secret's value, or the password of one that is an address. Never throws. */
  strikeOut(text: string): string {
    const forms = this.#declared
      .flatMap((name) => formsOf(this.#source[name] ?? "").map((form) => ({ name, form })))
      .sort((a, b) => b.form.length - a.form.length); // a secret that begins with another one goes first
    return forms.reduce((struck, { name, form }) => struck.replaceAll(form, `[${name}]`), text);
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
}

/** Any value of a parsed JSON text. */
type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** A secret as text may repeat it: as it is, inside JSON, and an address's password, encoded or not. */
function formsOf(value: string): readonly string[] {
  const forms = [value];
  if (URL.canParse(value)) {
    const { password } = new URL(value);
    forms.push(password, decoded(password));
  }
  return [...new Set(forms.flatMap((form) => [form, JSON.stringify(form).slice(1, -1)]))].filter(
    (form) => form.length >= STRUCK_OUT_LENGTH_MIN,
  );
}

/** A password with its percent signs resolved where they are escapes; a bare one stays as it is. */
function decoded(password: string): string {
  try {
    return decodeURIComponent(password);
  } catch {
    return password;
  }
}

/** Nothing to strike out: for text that no adapter had a hand in. */
export const NO_SECRETS = new Secrets([], {});
