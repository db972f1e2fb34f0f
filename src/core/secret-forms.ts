/**
 * The forms in which a text may repeat a secret: as it is, inside JSON, in an address, and in base64, whatever stands
 * around it there. One that was transformed in another way (hashed, compressed, cut in pieces) is not found.
 */

/** One form of one secret. */
export interface SecretForm {
  readonly name: string;
  readonly text: string;
  /** In base64 the characters beside it may hold some bits of it, so they go with it. */
  readonly base64: boolean;
  /** It names a place or an account, too: struck out all the same, but no reason to refuse what holds it. */
  readonly open: boolean;
}

interface Plain {
  readonly text: string;
  readonly open: boolean;
}

/** Shorter values are too common in ordinary text to be struck out of it. */
const LENGTH_MIN = 4;

/** A shorter value counts as bound only where it stands alone: `test` is a bad key, and `latest` does not hold it. */
const ALONE_BELOW = 8;

/** What is certain of a value in base64 is at least so long: four characters stand in every larger text by chance. */
const BASE64_LENGTH_MIN = 5;

/** Every form of a secret's value; none for one that is too short. */
export function secretForms(name: string, value: string): readonly SecretForm[] {
  const plain = plainForms(value).filter(({ text }) => text.length >= LENGTH_MIN);
  return plain.flatMap(({ text, open }) => {
    const written = new Set([text, JSON.stringify(text).slice(1, -1), ...percentEncoded(text)]);
    return [
      ...[...written].map((form) => ({ name, text: form, base64: false, open })),
      ...[...new Set(base64Parts(text))].map((form) => ({ name, text: form, base64: true, open })),
    ];
  });
}

/** The text with the secret's name in place of this form of it. */
export function withoutForm(text: string, { name, text: form, base64 }: SecretForm): string {
  if (!text.includes(form)) return text;
  if (!base64) return text.replaceAll(form, () => `[${name}]`);
  const escaped = form.replaceAll(/[+/]/g, "\\$&");
  return text.replaceAll(new RegExp(`[\\w+/-]?${escaped}[\\w+/-]?={0,2}`, "g"), () => `[${name}]`);
}

/** True where the text tells this form; a short one only where it stands alone. */
export function standsIn(text: string, { text: form, base64, open }: SecretForm): boolean {
  if (open) return false;
  if (base64 || form.length >= ALONE_BELOW) return text.includes(form);
  const isWord = (character: string | undefined) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
  for (let at = text.indexOf(form); at >= 0; at = text.indexOf(form, at + 1)) {
    if (!isWord(text[at - 1]) && !isWord(text[at + form.length])) return true;
  }
  return false;
}

/**
 * The value, and the password of one that is an address, as it is written and as it is meant. An address of scheme and
 * host alone is a setting, and a password that is also the user or the database (`postgres`) tells nothing.
 */
function plainForms(value: string): readonly Plain[] {
  if (!URL.canParse(value)) return [{ text: value, open: false }];
  const address = new URL(value);
  const { password } = address;
  address.password = "";
  const whole = { text: value, open: value.replace(/\/$/, "") === address.origin };
  const open = address.href.includes(password);
  return [whole, { text: password, open }, { text: meant(password), open }];
}

/** With a percent sign that is no escape as it stands. */
function meant(password: string): string {
  try {
    return decodeURIComponent(password);
  } catch {
    return password;
  }
}

/** As a part of an address and as a field of a form, with escapes in both cases. */
function percentEncoded(value: string): readonly string[] {
  const wellFormed = value.toWellFormed();
  const part = encodeURIComponent(wellFormed);
  const strict = part.replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
  const field = new URLSearchParams([["", wellFormed]]).toString().slice(1);
  return [part, strict, encodeURI(wellFormed), field].flatMap((form) => [
    form,
    form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
  ]);
}

/**
 * What is certain of a value in base64, in both alphabets. Three bytes are four characters, so it depends on where in its
 * triple the value begins (`user:` before a password moves it); of the character at each end only some bits are its own.
 */
function base64Parts(value: string): readonly string[] {
  const bytes = Buffer.from(value, "utf8");
  return [0, 1, 2].flatMap((shift) => {
    const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString("base64");
    const certain = encoded.slice(Math.ceil((shift * 8) / 6), Math.floor(((shift + bytes.length) * 8) / 6));
    if (certain.length < BASE64_LENGTH_MIN) return [];
    return [certain, certain.replaceAll("+", "-").replaceAll("/", "_")];
  });
}
